"""The benchmark as a user runs it. Every figure is verified; how fast anything is, no test asks."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import cli
from cli import run

SCHEMA = Path(os.environ.pop("SHMOE_TEST_BENCH_SCHEMA", "/nonexistent"))
BENCH = Path(cli.SHMOE).parent / "shmoe-bench"
SMALL = ("--tokens", 5, "--hidden", 37, "--topk", 3, "--experts", 7, "--blocks", 3)
EP = ("ep.dispatch", "ep.dispatch_consume", "ep.combine")
LL = ("ll.dispatch", "ll.dispatch.p99", "ll.combine", "ll.combine.p99")
MPI = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


class Bench(cli.Case):
    def setUp(self):
        super().setUp()
        if not BENCH.exists():
            self.skipTest("shmoe-bench is not built: it needs libopenmpi-dev")

    def mpirun(self, ranks, *words, **environment):
        command = ["mpirun", "--oversubscribe", "-np", str(ranks), cli.SHMOE, "bench", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, timeout=cli.LIMIT_S, env={**MPI, **environment})

    def launched(self, ranks, *words, **options):
        return run("run", "-n", ranks, "--no-prefix", "--", cli.SHMOE, "bench", *words, **options)

    def report(self, done):
        """The rows by name, once the whole of standard output is one object that follows the schema."""
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(sorted(report), ["command", "machine", "rows", "schema"])
        self.follow_schema(report)
        for row in report["rows"]:
            self.assertTrue(row["verified"], row)
        rows = {row["name"]: row for row in report["rows"]}
        self.assertEqual(len(rows), len(report["rows"]), "a name stands for one row")
        return rows

    def slow_link(self, rows):
        """Times are those of links that are slow by sleeping: chunks of 5 elements, shards of 2."""
        for name in ("detour.slow_link", "detour.slow_link.reduce_scatter"):
            self.assertGreaterEqual(rows[name]["peer_us"], 5 * 4 / 80e-6)
            self.assertGreaterEqual(rows[name]["ours_us"], 2 * 4 / 80e-6)
            self.assertLessEqual(abs(rows[name]["ratio"] / (5 / 2) - 1), 0.15)
            self.assertAlmostEqual(rows[name]["value"], rows[name]["ratio"] / (5 / 2))

    def follow_schema(self, report):
        try:
            import jsonschema
        except ImportError:
            return
        schema = json.loads(SCHEMA.read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.Draft202012Validator(schema).validate(report)


@unittest.skipUnless(shutil.which("mpirun"), "no mpirun here")
class Peers(Bench):
    """Under mpirun ours is measured beside three ways that MPI has."""

    def test_any_ranks_and_odd_rows(self):
        for ranks in (1, 2, 3):
            with self.subTest(ranks=ranks):
                rows = self.report(self.mpirun(ranks, "ep", *SMALL, "--json"))
                for name in EP:
                    for row in (name, f"{name}.vs_hindexed", f"{name}.vs_window"):
                        self.assertEqual(rows[row]["ranks"], ranks)
                        for figure in ("ours_us", "peer_us", "ratio", "value"):
                            self.assertGreater(rows[row][figure], 0, row)
                    self.assertGreater(rows[name]["limit_share"], 0)
                for stage in ("pack", "alltoallv", "permute", "sum"):
                    self.assertGreater(rows[f"ep.pipeline.{stage}"]["limit_share"], 0)

    def test_dtypes(self):
        for dtype in ("fp16", "fp32"):
            with self.subTest(dtype=dtype):
                self.report(self.mpirun(2, "ep", *SMALL, "--dtype", dtype, "--json"))

    def test_rows_of_whole_vectors_cold_and_on_several_cores(self):
        self.report(self.mpirun(2, "ep", *SMALL[:2], "--hidden", 512, *SMALL[4:], "--cold", "--json"))
        self.report(self.mpirun(2, "ep", *SMALL, "--cores", 2, "--small-pages", "--json"))

    def test_ranks_without_tokens(self):
        self.report(self.mpirun(2, "ep", "--tokens", 0, *SMALL[2:], "--json"))

    def test_the_table(self):
        done = self.mpirun(2, "ep", *SMALL)
        self.assertEqual(done.returncode, 0, done.stderr)
        for part in ("mpirun -np 2 shmoe bench ep --tokens 5 --hidden 37",
                     "2 ranks of 1 core, started by openmpi, profile safe, Open MPI", "pinning: ", "huge pages: ",
                     "3 blocks, warm; bf16 rows of hidden 37, 5 tokens a rank, top 3 of 7 experts",
                     "MPI pipeline", "MPI hindexed", "MPI window", "verified: bit-exact"):
            self.assertIn(part, done.stdout)

    def test_few_tokens(self):
        for ranks in (1, 2, 3):
            with self.subTest(ranks=ranks):
                rows = self.report(self.mpirun(ranks, "ll", *SMALL, "--json"))
                self.assertEqual(sorted(rows), sorted(LL + ("ll.round_trips",) * (ranks == 2)))
                for name in LL:
                    self.assertEqual(rows[name]["ranks"], ranks)
                    for figure in ("ours_us", "peer_us", "ratio"):
                        self.assertGreater(rows[name][figure], 0)
                    self.assertIsNone(rows[name]["value"])
                for name in ("ll.dispatch", "ll.combine"):
                    self.assertGreaterEqual(rows[f"{name}.p99"]["ours_us"], rows[name]["ours_us"])
        self.assertGreater(self.report(self.mpirun(2, "ll", *SMALL, "--json"))["ll.round_trips"]["value"], 0)
        self.report(self.mpirun(2, "ll", *SMALL, "--compute", 50, "--cores", 2, "--dtype", "fp32", "--json"))
        self.report(self.mpirun(2, "ll", "--tokens", 0, *SMALL[2:], "--json"))
        done = self.mpirun(2, "ll", *SMALL[2:], "--compute", 5)
        self.assertEqual(done.returncode, 0, done.stderr)
        for part in ("mpirun -np 2 shmoe bench ll --tokens 1 --hidden 37", "--compute 5",
                     "3 blocks; bf16 rows of hidden 37, 1 token a rank, top 3 of 7 experts; 5 us of computing",
                     "two flags there and back", "both calls over the least, the median of the ratios of the blocks: ", "verified: bit-exact"):
            self.assertIn(part, done.stdout)

    def test_attention_to_experts(self):
        for ranks, experts in ((2, 1), (5, 2), (4, 3)):
            with self.subTest(ranks=ranks, experts=experts):
                rows = self.report(self.mpirun(ranks, "afd", "--tokens", 5, "--hidden", 37, "--topk", 3, "--blocks", 3,
                                               "--expert-ranks", experts, "--json"))
                for name in ("a2e", "e2a"):
                    self.assertEqual(rows[name]["ranks"], ranks)
                    for figure in ("ours_us", "peer_us", "ratio"):
                        self.assertGreater(rows[name][figure], 0)

    def test_barrier(self):
        rows = self.report(self.mpirun(2, "barrier", "--rounds", 5, "--blocks", 3, "--json"))
        self.assertGreater(rows["barrier"]["peer_us"], 0)
        self.assertGreater(rows["barrier.flag_round_trip"]["peer_us"], 0)
        rows = self.report(self.mpirun(3, "barrier", "--rounds", 5, "--blocks", 3, "--json"))
        self.assertNotIn("barrier.flag_round_trip", rows)

    def test_collectives(self):
        for ranks in (1, 2, 3):
            with self.subTest(ranks=ranks):
                rows = self.report(self.mpirun(ranks, "collectives", "--blocks", 2, "--most-kib", 64, "--json"))
                for name in ("all_to_all", "reduce_scatter"):
                    for size in ("1KiB", "64KiB"):
                        self.assertEqual(rows[f"{name}.{size}"]["ranks"], ranks)
                        self.assertGreater(rows[f"{name}.{size}"]["ratio"], 0)
                    self.assertNotIn(f"{name}.1MiB", rows)
                self.slow_link(rows)

    def test_more_experts_a_token(self):
        rows = self.report(self.mpirun(2, "topk", *SMALL[:4], *SMALL[6:], "--topk", 4, "--against", 3, "--json"))
        self.assertGreater(rows["ep.k4_over_k3"]["value"], 0)

    def test_int8_against_rows_as_they_are(self):
        rows = self.report(self.mpirun(2, "int8", *SMALL, "--json"))
        self.assertGreater(rows["ep.int8_over_bf16"]["value"], 0)
        self.assertGreater(rows["ep.int8_over_bf16.consume"]["value"], 0)

    def test_a_bad_option_is_told_once(self):
        done = self.mpirun(3, "ep", "--bogus")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stderr.count("shmoe bench ep: "), 1, done.stderr)


class Alone(Bench):
    """Without MPI ours is measured all the same, and a line says why it stands alone."""

    def test_under_run(self):
        rows = self.report(self.launched(3, "ep", *SMALL, "--json"))
        for name in EP:
            self.assertGreater(rows[name]["ours_us"], 0)
            self.assertGreater(rows[name]["limit_share"], 0)
            self.assertIsNone(rows[name]["peer_us"])
            self.assertIsNone(rows[name]["ratio"])
        self.assertFalse([name for name in rows if "vs_" in name or "pipeline" in name])
        done = self.launched(3, "ep", *SMALL)
        self.assertIn("no MPI beside it: the ranks were started by shmoe; with mpirun -np R there is", done.stdout)

    def test_few_tokens(self):
        rows = self.report(self.launched(3, "ll", *SMALL, "--json"))
        self.assertEqual(sorted(rows), sorted(LL))
        self.assertGreater(rows["ll.dispatch"]["ours_us"], 0)
        self.assertIsNone(rows["ll.combine"]["peer_us"])
        rows = self.report(self.launched(2, "ll", *SMALL, "--cores", 2, "--json"))
        self.assertGreater(rows["ll.round_trips"]["value"], 0)
        rows = self.report(self.launched(2, "ll", *SMALL, "--json", env={**os.environ, "SHMOE_VIEWS": "off"}))
        self.assertNotIn("ll.round_trips", rows)
        done = run("bench", "ll", *SMALL, env={**os.environ, "SHMOE_PROFILE": "faithful-2026-07"})
        self.assert_one_message(done, "take SHMOE_PROFILE=safe")

    def test_attention_to_experts(self):
        small = ("--tokens", 5, "--hidden", 37, "--topk", 3, "--blocks", 3)
        rows = self.report(self.launched(3, "afd", *small, "--dtype", "fp32", "--cores", 2, "--json"))
        self.assertGreater(rows["a2e"]["ours_us"], 0)
        self.assertIsNone(rows["e2a"]["peer_us"])
        done = run("bench", "afd", *small)
        self.assert_one_message(done, "1 expert ranks and 0 attention ranks")

    def test_collectives_of_ours(self):
        rows = self.report(self.launched(3, "collectives", "--blocks", 2, "--most-kib", 1, "--json"))
        self.assertIsNone(rows["all_to_all.1KiB"]["peer_us"])
        self.assertGreater(rows["reduce_scatter.1KiB"]["ours_us"], 0)
        self.slow_link(rows)

    def test_with_notes_and_without(self):
        rows = self.report(self.launched(2, "notes", *SMALL, "--json"))
        self.assertGreater(rows["diagnose.overhead"]["value"], 0)
        self.assertGreater(rows["diagnose.overhead.combine"]["value"], 0)

    def test_looked_at_and_alone(self):
        rows = self.report(self.launched(2, "inspection", *SMALL, "--json"))
        self.assertGreater(rows["diagnose.inspection"]["value"], 0)
        self.assertGreater(rows["diagnose.inspection.combine"]["value"], 0)

    def test_a_deadlock_and_its_proof(self):
        rows = self.report(run("bench", "diagnose", "--ranks", 3, "--cores", 2, "--repeats", 2, "--json"))
        self.assertEqual(rows["diagnose.proof_ms"]["ranks"], 3)
        self.assertGreater(rows["diagnose.proof_ms"]["value"], 0)

    def test_without_a_launcher(self):
        rows = self.report(run("bench", "ep", *SMALL, "--json"))
        self.assertEqual(rows["ep.dispatch"]["ranks"], 1)

    def test_without_views_there_is_no_limit(self):
        rows = self.report(self.launched(2, "ep", *SMALL, "--json", env={**os.environ, "SHMOE_VIEWS": "off"}))
        self.assertGreater(rows["ep.combine"]["ours_us"], 0)

    def test_barrier(self):
        rows = self.report(self.launched(5, "barrier", "--rounds", 5, "--blocks", 3, "--json"))
        self.assertEqual(rows["barrier"]["ranks"], 5)
        self.assertIsNone(rows["barrier"]["peer_us"])

    def test_start(self):
        rows = self.report(run("bench", "start", "--ranks", 3, "--repeats", 3, "--json"))
        self.assertEqual(rows["start"]["ranks"], 3)
        self.assertGreater(rows["start"]["ours_us"], 0)

    def test_heap(self):
        rows = self.report(run("bench", "heap", "--json"))
        self.assertGreater(rows["heap.alloc"]["ours_us"], 0)
        for name in ("heap.utilisation", "heap.utilisation.mixed"):
            self.assertTrue(0 < rows[name]["value"] <= 1, rows[name])

    def test_json_to_a_file_beside_the_table(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "report.json"
            done = run("bench", "ep", *SMALL, "--json", file)
            self.assertIn("verified: bit-exact", done.stdout)
            report = json.loads(file.read_text())
            self.follow_schema(report)
            self.assertIn("shmoe bench ep --tokens 5 --hidden 37", report["command"])


class Refused(Bench):
    def test_each_mistake_gives_one_message(self):
        mistakes = {
            ("ep", "--bogus"): "shmoe bench ep: ",
            ("ep", "--hidden", "0"): "--hidden",
            ("ep", "--dtype", "int8"): "--dtype: int8 not in {bf16,fp16,fp32}",
            ("ep", "--blocks", "0"): "--blocks",
            ("ep", "--topk", "9", "--experts", "8"): "top 9 of 8 experts",
            ("ep", "--json", "/no/such/folder/report.json"): "cannot write",
            ("topk", "--topk", "4", "--against", "4"): "--against",
            ("barrier", "--rounds", "0"): "--rounds",
            ("ll", "--compute", "-1"): "--compute",
            ("ll", "--cold"): "--cold",
            ("ll", "--topk", "9", "--experts", "8"): "top 9 of 8 experts",
            ("start", "--repeats", "0"): "--repeats",
            ("nothing",): "there is no benchmark 'nothing'",
        }
        for words, part in mistakes.items():
            with self.subTest(words=words):
                self.assert_one_message(run("bench", *words), part)

    def test_options_that_differ_are_named(self):
        script = '[ "$SHMOE_RANK" != 2 ] || set -- "$@" --seed 7; exec "$0" bench ep --tokens 1 --hidden 16 "$@"'
        done = run("run", "-n", 3, "--", "bash", "-c", script, cli.SHMOE)
        told = [line for line in done.stderr.splitlines() if "shmoe bench ep:" in line]
        self.assertEqual(len(told), 1, done.stderr)
        self.assertIn("mismatch: rank 2 has options", told[0])
        self.assertEqual(done.returncode, 1)

    def test_the_heap_is_one_process(self):
        done = self.launched(2, "heap")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("is one process", done.stderr)

    def test_start_is_its_own_launcher(self):
        done = self.launched(2, "start")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("starts the ranks itself", done.stderr)


class Taught(Bench):
    def test_help(self):
        for words, part in ((("bench", "--help"), "mpirun -np 2 shmoe bench ep"), (("bench", "ep", "--help"), "--tokens"),
                            (("help", "bench"), "mpirun -np 2 shmoe bench ep"), (("--help",), "bench")):
            with self.subTest(words=words):
                done = run(*words)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(part, done.stdout)

    def test_the_mpi_contenders_and_their_clock_are_frozen(self):
        folder = Path(__file__).resolve().parents[2] / "apps/bench"
        done = subprocess.run(["sha256sum", "--check", "--quiet", "baseline.sha256"], cwd=folder, capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, 0, done.stdout + "whoever changes a contender measures the README's tables "
                         "again, then: cd apps/bench && sha256sum $(cut -c67- baseline.sha256) > new && mv new baseline.sha256")

    def test_a_missing_program_is_named_with_what_to_install(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = Path(folder) / "shmoe"
            shutil.copy(cli.SHMOE, alone)
            done = subprocess.run([alone, "bench", "ep"], capture_output=True, text=True, timeout=cli.LIMIT_S)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn("shmoe-bench", done.stderr)
            self.assertIn("libopenmpi-dev", done.stderr)
            done = subprocess.run([alone, "bench", "--help"], capture_output=True, text=True, timeout=cli.LIMIT_S)
            self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    cli.main()
