#pragma once
// What `shmoe bench NAME --help` says of each benchmark.

namespace shmoe::apps {

inline constexpr const char* kEpHelp =
    "How long dispatch and combine take, beside three ways that MPI has and beside what the machine can do at best.\n\n"
    "  mpirun -np 2 shmoe bench ep                       one rank a CPU; more ranks than CPUs need --oversubscribe\n"
    "  mpirun -np 2 shmoe bench ep --json report.json    the rows as well, as apps/bench/bench.schema.json says\n"
    "  shmoe run -n 64 -- shmoe bench ep --tokens 8      without MPI: ours and its limits alone\n\n"
    "In one job, block after block and by turns:\n"
    "  ours           layout, notify, dispatch; combine\n"
    "  MPI pipeline   sort, Alltoall of counts, pack, Alltoallv, permute to expert-major; back: permute, Alltoallv, "
    "sum\n"
    "  MPI hindexed   Alltoallw with types that pick rows and place them, no packing; likewise back; sum\n"
    "  MPI window     Allgather of counts, direct stores into a shared window, sync and barrier; back: direct loads\n"
    "  limits         bare copies of the same rows to the same places, by memcpy, streaming stores and rep movsb, "
    "then\n"
    "                 a bare read of them; bare reads of the K rows of each token\n"
    "All contenders use our own weighted sum, the window the fastest of the three copies. Rows lie on huge pages "
    "where\n"
    "there are any, those of the window on the pages that MPI gives it. Every result of every block is compared with "
    "a\n"
    "sequential reference, to the bit.\n\n"
    "A time is from the first rank's start to the last rank's end of one call, between two barriers; the first read\n"
    "counts by itself, behind the barrier that ends dispatch. CPU us/row is the CPU time of all ranks over the rows of "
    "all ranks. 'of limit' is limit over time: 1 is all that this machine gives.\n"
    "Warm: the same call came right before. Cold: caches are swept before each call.";
inline constexpr const char* kTopkHelp =
    "What a row costs at one top k against another: ours at both by turns, in one job.\n\n"
    "  mpirun -np 2 shmoe bench topk                     9 against 8\n"
    "  mpirun -np 2 shmoe bench topk --topk 16 --against 4";
inline constexpr const char* kInt8Help =
    "What int8 rows with a scale save in dispatch, quantising included: ours with and without by turns, in one job.\n\n"
    "  mpirun -np 2 shmoe bench int8";
inline constexpr const char* kNotesHelp =
    "What the notes cost from which a deadlock is proven: dispatch and combine with wait records, ledger and events "
    "by\n"
    "turns with none of them, in one job. The figure is the quotient of the times.\n\n"
    "  mpirun -np 2 shmoe bench notes --blocks 200";
inline constexpr const char* kInspectionHelp =
    "What it costs to be looked at: dispatch and combine while `shmoe inspect` reads everything a thousand times a "
    "second,\n"
    "by turns with nobody looking, in one job. Needs a processor for the inspector beside those of the ranks.\n\n"
    "  mpirun -np 2 shmoe bench inspection --blocks 200";
inline constexpr const char* kLlHelp =
    "How long dispatch and combine for few tokens take, the median and the 99th percentile, beside the MPI pipeline "
    "of\n"
    "`shmoe bench ep`.\n\n"
    "  mpirun -np 2 shmoe bench ll                       a token a rank\n"
    "  mpirun -np 2 shmoe bench ll --tokens 128 --blocks 60\n"
    "  mpirun --oversubscribe -np 8 shmoe bench ll --tokens 16 --compute 200    as a model decodes\n\n"
    "In one job, block after block and by turns. In a block each goes through one step untimed, then dispatch and "
    "combine\n"
    "are timed, each between two barriers; with --compute every rank keeps its CPU busy before each of them. Every "
    "result "
    "of\n"
    "every block is compared with a sequential reference, to the bit.\n\n"
    "A time is from the first rank's start to the last rank's end of one call. Of two ranks, ll.round_trips says what\n"
    "dispatch and combine take together, over the least: two bare flags there and back, the fastest bare copies of "
    "the\n"
    "rows to their places, and the fastest bare reads of the answers where combine reads them: the median of the\n"
    "ratios of the blocks, which is not quite the ratio of the medians beside it.";
inline constexpr const char* kAfdHelp =
    "How long a2e and e2a take, where attention and experts have ranks of their own, beside sends and receives of "
    "MPI.\n\n"
    "  mpirun -np 2 shmoe bench afd                      one expert rank, one attention rank\n"
    "  mpirun --oversubscribe -np 5 shmoe bench afd --expert-ranks 2\n\n"
    "In one job, block after block and by turns:\n"
    "  a2e   batch size, expert ids, scales and rows of each attention rank to its expert rank;\n"
    "        MPI: Isend and Irecv of the four, the rows straight to their place\n"
    "  e2a   weighted sums of the answers back; MPI: our own weighted sum, Isend and Irecv of the rows\n"
    "Every result of every block is compared with a sequential reference, to the bit. A time is from the first rank's\n"
    "start to the last rank's end of one call, between two barriers.";
inline constexpr const char* kBarrierHelp =
    "One round of the barrier of all ranks, within a kernel and as a call of the host, beside MPI_Barrier and, of two\n"
    "ranks, beside a bare flag there and back.\n\n"
    "  mpirun -np 2 shmoe bench barrier\n"
    "  shmoe run -n 384 --no-prefix -- shmoe bench barrier --rounds 20 --blocks 5    without MPI: ours alone";
inline constexpr const char* kCollectivesHelp =
    "All-to-all and reduce-scatter of fp32 among all ranks, beside MPI_Alltoall and MPI_Reduce_scatter_block, with 1 "
    "KiB to\n"
    "16 MiB for each pair of ranks; and what a detour gains where a link is slow.\n\n"
    "  mpirun -np 2 shmoe bench collectives\n"
    "  mpirun -np 4 --oversubscribe shmoe bench collectives --most-kib 1024\n\n"
    "Both have the same input, call after call in blocks, by turns; every element of the last call of a block is "
    "checked.\n"
    "Ours writes its chunks straight into the receivers' symmetric output, and reduces from symmetric input.\n"
    "detour.slow_link and detour.slow_link.reduce_scatter: four ranks as threads of rank 0, of which two communicate "
    "over a\n"
    "link that is four times slower than those to the two others. Puts are held back as links would, by sleeping, so\n"
    "these times say nothing of the machine. The ratio is the time of the direct way over that of the detour, the "
    "value\n"
    "that ratio over the one that the lengths of the shards predict; beyond 15 % it is not verified, and the exit code "
    "1.";
inline constexpr const char* kStartHelp =
    "How long a job takes to start: from the exec of `shmoe run` until every rank has finished layout and notify.\n"
    "Starts the ranks itself.\n\n"
    "  shmoe bench start                                 8 ranks\n"
    "  shmoe bench start --ranks 384 --repeats 3";

inline constexpr const char* kDiagnoseHelp =
    "How long a job whose waits can never end takes to say so: from the beginning of the last of these waits to the\n"
    "printed verdict, proof included. Starts the ranks itself.\n\n"
    "  shmoe bench diagnose                              8 ranks of 4 cores\n"
    "  shmoe bench diagnose --ranks 64 --cores 1";
inline constexpr const char* kHeapHelp =
    "What the symmetric heap costs at 10 000 live blocks and how full it gets in the mixed scenario of CAM's HFA, "
    "before\n"
    "and after blocks are moved. Arithmetic of one process: no ranks.\n\n"
    "  shmoe bench heap";

}  // namespace shmoe::apps
