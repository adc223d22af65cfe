#pragma once
// The C interface: worlds, communicators, symmetric memory and the operators, for C11, C++ and whatever calls C.
//
//   world --> communicator --> symmetric memory
//                        |---> shmoe_ep     layout, notify, dispatch, combine        many tokens
//                        |---> shmoe_ll     dispatch, combine                        few tokens
//                        |---> shmoe_afd    a2e, e2a                                 attention and experts apart
//                        `---> all-to-all, reduce-scatter
//
// Every function returns a status; the text of what went wrong is shmoe_last_error(). Results go through the last pointers.
// Structs begin with their size: `{.size = sizeof(shmoe_config), ...}`; whatever is not named is 0, which is the default.
// Fields are only ever added at the end, so a program and a library of different age understand each other.
//
// Two kinds of wrong arguments. A handle, struct or result that is NULL, and a number that names no choice, are refused on
// this rank alone: the call has not begun. All else the ranks find together at the operator's entry, and all leave with the
// same error. A tensor that is NULL is an empty one: where rows are expected, all ranks say so.
//
// One thread at a time uses a world and what is made of it. Sizes are bytes and int64_t, offsets bytes from the start of the
// communicator's memory, the same on every rank.

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define SHMOE_API __attribute__((visibility("default")))
#else
#define SHMOE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

// ---- status

typedef enum shmoe_status {
  SHMOE_OK = 0,
  SHMOE_INVALID_ARGUMENT = 1,   // a shape, id, type or option that the call does not take
  SHMOE_MISMATCH = 2,           // ranks disagree about a call, a layout or a setting
  SHMOE_CAPACITY_EXCEEDED = 3,  // more rows than the receive buffer holds
  SHMOE_OUT_OF_MEMORY = 4,      // no free bytes left
  SHMOE_FRAGMENTED = 5,         // enough free bytes, no free range long enough
  SHMOE_PEER_LOST = 6,          // a rank of this communicator is gone
  SHMOE_ABORTED = 7,            // another core or rank gave up
  SHMOE_DEADLINE = 8,           // the caller's own limit passed
  SHMOE_DEADLOCK = 9,           // proven: nobody alive can end this wait
  SHMOE_ALREADY_EXISTS = 10,    // the object is there and its owner lives
  SHMOE_NOT_FOUND = 11,
  SHMOE_PERMISSION = 12,       // owned by another user, or wrong mode
  SHMOE_VERSION = 13,          // another layout version
  SHMOE_REFUSED = 14,          // the peer rejected us: secret, size or rank
  SHMOE_SYSTEM = 15,           // a system call failed
  SHMOE_IO = 16,               // a stream ended or a file does not parse
  SHMOE_BROKEN_CONTRACT = 17,  // a fault in the calling program
} shmoe_status;

/// "mismatch", or "unknown" of a number that is none.
SHMOE_API const char* shmoe_status_name(int32_t status);
/// The whole text of the last error of this thread, empty where there was none. A call that succeeds leaves it as it is; the
/// next one that fails overwrites it.
SHMOE_API const char* shmoe_last_error(void);

// ---- choices

enum { SHMOE_BF16 = 0, SHMOE_FP16 = 1, SHMOE_FP32 = 2, SHMOE_INT32 = 3 };  // rows of tokens take the first three
enum { SHMOE_QUANT_NONE = 0, SHMOE_QUANT_INT8 = 1 };                       // how dispatch sends a row
enum { SHMOE_GROUPS_COUNTED = 0, SHMOE_GROUPS_CUMULATIVE = 1 };  // group list: rows of a group, or where it ends
enum { SHMOE_SUM = 0, SHMOE_MAX = 1, SHMOE_MIN = 2 };
enum { SHMOE_ANSWER_EACH_ROW = 0, SHMOE_ANSWER_EACH_EXPERT = 1 };  // e2a: [rows, H], or [rows, K, H] to be added up
enum { SHMOE_USES_LOW_LATENCY = 1, SHMOE_USES_AFD = 2 };           // operators that need slots of their own, added up

// ---- world

typedef struct shmoe_world shmoe_world;
typedef struct shmoe_communicator shmoe_communicator;

typedef struct shmoe_config {
  size_t size;
  /// "SHMOE_CORES=2", "SHMOE_HEAP=64MiB", ..., NULL: any variable that `shmoe info` lists; it wins over the environment.
  /// SHMOE_RANK, SHMOE_SIZE and SHMOE_JOB join a job that no launcher has started.
  const char* const* settings;
  const char* comm_id;  // a.b.c.d:port where the ranks meet; NULL: SHMOE_COMM_ID, or a file of the job
  uint32_t uses;        // SHMOE_USES_...: the same on every rank
} shmoe_config;

/// Finds the other processes of the job and maps their memory. Every rank calls it. `config` may be NULL: all defaults.
/// Errors:  one clear error on every rank, within SHMOE_BOOTSTRAP_TIMEOUT_S; invalid_argument of a setting
SHMOE_API shmoe_status shmoe_world_create(const shmoe_config* config, shmoe_world** world);
SHMOE_API shmoe_status shmoe_world_rank(const shmoe_world* world, int32_t* rank);
SHMOE_API shmoe_status shmoe_world_size(const shmoe_world* world, int32_t* size);
/// The end that all ranks reach together; the handle is still to be destroyed.
/// Order:   a barrier of all ranks
SHMOE_API shmoe_status shmoe_world_finalize(shmoe_world* world);
/// Ends every wait of every rank with `aborted`; the reason is the last error of this thread. A rank that fails calls it
/// before it leaves, so that nobody waits for it.
SHMOE_API shmoe_status shmoe_world_abort(shmoe_world* world);
/// Waits for nobody. Memory is unmapped with the last handle that was made of the world.
SHMOE_API shmoe_status shmoe_world_destroy(shmoe_world* world);

/// What a rank runs; SHMOE_OK, or the status of the call that failed. The world, and all that is made of it, ends with it.
typedef shmoe_status (*shmoe_rank_body)(shmoe_world* world, void* argument);
/// The same ranks as threads of this process, over plain memory. Rank 0 runs on the calling thread.
/// Errors:  the first failing rank's, the cause before those that were only aborted by it
SHMOE_API shmoe_status shmoe_run_as_threads(int32_t ranks, const shmoe_config* config, shmoe_rank_body body,
                                            void* argument);

// ---- communicators

/// The communicator of all ranks. Each call makes a handle, to be destroyed.
SHMOE_API shmoe_status shmoe_communicator_all(shmoe_world* world, shmoe_communicator** all);
/// A further one, of ranks of the world in group order. Its members call alike, with an id from 1 on that none of them has
/// used before.
/// Order:   a barrier of the members
/// Errors:  invalid_argument: a bad or repeated member, an id in use or not below SHMOE_COMMUNICATORS; mismatch or deadline
///          where the lists differ
SHMOE_API shmoe_status shmoe_communicator_create(shmoe_world* world, int32_t id, const int32_t* members, size_t count,
                                                 shmoe_communicator** made);
SHMOE_API shmoe_status shmoe_communicator_rank(const shmoe_communicator* comm, int32_t* rank);
SHMOE_API shmoe_status shmoe_communicator_size(const shmoe_communicator* comm, int32_t* size);
/// Order:   what any member did before is readable by every member afterwards
/// Errors:  mismatch where members call different operators or have different heaps; peer_lost, aborted, deadline, deadlock
SHMOE_API shmoe_status shmoe_communicator_barrier(shmoe_communicator* comm);
/// The handle; the memory and the id stay with the world.
SHMOE_API shmoe_status shmoe_communicator_destroy(shmoe_communicator* comm);

// ---- symmetric memory

/// Every member allocates and frees the same sizes in the same order.
/// Errors:  invalid_argument for 0 bytes; fragmented; out_of_memory where the heap or /dev/shm is full
SHMOE_API shmoe_status shmoe_memory_allocate(shmoe_communicator* comm, uint64_t bytes, uint64_t* offset);
/// Order:   waits for nobody: a barrier comes first where peers may still use the block
/// Errors:  invalid_argument where no block starts there
SHMOE_API shmoe_status shmoe_memory_free(shmoe_communicator* comm, uint64_t offset);
/// This rank's own bytes [offset, offset + bytes), for the time between operators.
/// Errors:  invalid_argument where they lie outside the communicator's memory
SHMOE_API shmoe_status shmoe_memory_local(shmoe_communicator* comm, uint64_t offset, uint64_t bytes, void** address);

// ---- rows that have arrived

/// Those of expert groups[0] first, by ascending expert, then source rank, then send order. Pointers stay good until the
/// next call of the same handle.
typedef struct shmoe_rows {
  size_t size;
  int64_t rows;
  int64_t padded_rows;            // rows in use, with the padding after each expert; ll: as rows
  int64_t capacity;               // rows of the buffers, the same on every rank
  void* x;                        // [padded_rows, H] of the type, or int8
  void* answers;                  // [padded_rows, H] of the type: row i answers row i of x
  float* scales;                  // [padded_rows], of int8 rows: x is about the row * its scale
  int32_t groups;                 // own experts, shared ones first
  const int32_t* experts;         // [groups]; shared ones are -1
  const int64_t* rows_of_expert;  // [groups] without padding; ll: NULL where groups are cumulative
  const int64_t* group_list;      // [groups]: what a grouped matmul takes
} shmoe_rows;

// ---- many tokens: layout, notify, dispatch, combine

typedef struct shmoe_ep shmoe_ep;

typedef struct shmoe_ep_shape {
  size_t size;
  int32_t experts;           // E
  int32_t topk;              // K
  int64_t hidden;            // H
  int32_t type;              // SHMOE_BF16, ...
  int32_t quant;             // SHMOE_QUANT_...
  const int32_t* owners;     // [E]: the rank of each expert; NULL: runs of ceil(E / R)
  int64_t expert_alignment;  // the rows of each expert start at a multiple of it; 0: 1
  int32_t group_list;        // SHMOE_GROUPS_...
} shmoe_ep_shape;

/// The tables, and symmetric buffers that grow as needed. Every member creates and destroys alike.
SHMOE_API shmoe_status shmoe_ep_create(shmoe_communicator* comm, const shmoe_ep_shape* shape, shmoe_ep** ep);
/// Order:   waits for nobody: a barrier comes first, since peers may still read the answers
SHMOE_API shmoe_status shmoe_ep_destroy(shmoe_ep* ep);
/// Counts what this rank will send.
/// Shapes:  topk_idx [T, K], -1 drops a pair; weights [T, K], or NULL: every weight is 1. Both are copied
/// Errors:  those of ids wait for notify, which raises them on every rank
SHMOE_API shmoe_status shmoe_ep_layout(shmoe_ep* ep, const int64_t* topk_idx, const float* weights, int64_t tokens);
/// Tells every rank where its rows will lie, and makes room for them.
/// Order:   one barrier, at the entry
SHMOE_API shmoe_status shmoe_ep_notify(shmoe_ep* ep);

typedef struct shmoe_ep_dispatch_args {
  size_t size;
  const void* x;       // [T, H] of the type
  size_t x_bytes;      // of it
  int64_t* wait_cost;  // [R] or NULL: grows by the nanoseconds this rank waited for each
} shmoe_ep_dispatch_args;

/// Sends each row to its place on the ranks of its experts.
/// Order:   on return this rank's rows are readable
/// Errors:  on every rank the same, and no row written: capacity_exceeded, mismatch, invalid_argument. Of waits, each rank
///          its own: peer_lost, aborted, deadline, deadlock
SHMOE_API shmoe_status shmoe_ep_dispatch(shmoe_ep* ep, const shmoe_ep_dispatch_args* args);
/// Of the last notify; x is there after dispatch.
SHMOE_API shmoe_status shmoe_ep_rows(shmoe_ep* ep, shmoe_rows* rows);

typedef struct shmoe_ep_combine_args {
  size_t size;
  void* x;  // out: [T, H] of the type
  size_t x_bytes;
  int64_t* wait_cost;         // as above
  const uint64_t* prob_grad;  // offset of [capacity, 1] of the type: the gradient of the weight of each row, or NULL
  void* grad_out;             // out, with prob_grad: [T, K] of the type
  size_t grad_out_bytes;
} shmoe_ep_combine_args;

/// Sums the answers to each token, weighted: single fp32 operations in ascending k, then one rounding.
/// Order:   peers may still read this rank's answers on return: they must not change before the next notify or dispatch
/// Errors:  as shmoe_ep_dispatch
SHMOE_API shmoe_status shmoe_ep_combine(shmoe_ep* ep, const shmoe_ep_combine_args* args);

// ---- few tokens: dispatch and combine, each whole or in two halves. A world that uses them says so in its config

typedef struct shmoe_ll shmoe_ll;

typedef struct shmoe_ll_shape {
  size_t size;
  int32_t experts;         // E, routed ones
  int32_t topk;            // K
  int64_t hidden;          // H
  int32_t type;            // SHMOE_BF16, ...
  int32_t quant;           // SHMOE_QUANT_...
  const int32_t* owners;   // [E]; NULL: even runs over the ranks behind the shared ones
  int64_t most_tokens;     // of any rank: makes room for all their rows
  int64_t capacity;        // or so many rows; 0: as most_tokens says
  int32_t shared_experts;  // S: every token goes to each
  int32_t shared_ranks;    // N: the first ranks hold them, N / S copies each
  int32_t group_list;      // SHMOE_GROUPS_...
} shmoe_ll_shape;

/// Two halves of symmetric buffers that take turns. Every member creates and destroys alike.
SHMOE_API shmoe_status shmoe_ll_create(shmoe_communicator* comm, const shmoe_ll_shape* shape, shmoe_ll** ll);
/// Order:   waits for nobody: a barrier comes first
SHMOE_API shmoe_status shmoe_ll_destroy(shmoe_ll* ll);

typedef struct shmoe_ll_dispatch_args {
  size_t size;
  int64_t tokens;  // T
  const void* x;   // [T, H] of the type
  size_t x_bytes;
  const int32_t* expert_ids;   // [T, K]; -1 drops a pair
  const uint8_t* active_mask;  // [T] or [T, K], 0 or 1, or NULL: all are active
  size_t active_mask_count;
  const float* scales;        // int8: smooth scales [S + E, H], or NULL
  const float* static_scale;  // int8: of every row, or NULL: each row has its own
} shmoe_ll_dispatch_args;

/// `half` names the call: 0 or 1, by turns.
/// Order:   on return this rank's rows are readable
/// Errors:  as shmoe_ep_dispatch; invalid_argument where the world does not use low latency
SHMOE_API shmoe_status shmoe_ll_dispatch(shmoe_ll* ll, const shmoe_ll_dispatch_args* args, int32_t* half);
/// Sends and returns; x may change. Two calls may be in flight.
SHMOE_API shmoe_status shmoe_ll_dispatch_begin(shmoe_ll* ll, const shmoe_ll_dispatch_args* args, int32_t* half);
/// Order:   on return this rank's rows are readable
/// Errors:  invalid_argument where nothing is in flight in this half
SHMOE_API shmoe_status shmoe_ll_dispatch_finish(shmoe_ll* ll, int32_t half);
/// Errors:  broken_contract before the rows have been received
SHMOE_API shmoe_status shmoe_ll_rows(shmoe_ll* ll, int32_t half, shmoe_rows* rows);

typedef struct shmoe_ll_combine_args {
  size_t size;
  void* x;  // out: [T, H] of the type
  size_t x_bytes;
  const float* expert_scales;  // [T, K]: the weights; NULL: every weight is 1
  const void* ori_x;           // answers in own memory, to be copied first, or NULL
  size_t ori_x_bytes;
  const void* shared_expert_x;  // [T, H] of the type, added to each sum, or NULL
  size_t shared_expert_x_bytes;
} shmoe_ll_combine_args;

/// Order:   peers may still read this rank's answers on return, until the next dispatch of the other half has begun
/// Errors:  as shmoe_ll_dispatch
SHMOE_API shmoe_status shmoe_ll_combine(shmoe_ll* ll, int32_t half, const shmoe_ll_combine_args* args);
/// Tells the peers that the answers are there; what `args` points to stays until the finish.
SHMOE_API shmoe_status shmoe_ll_combine_begin(shmoe_ll* ll, int32_t half, const shmoe_ll_combine_args* args);
/// Order:   x is complete on return
/// Errors:  invalid_argument where nothing is in flight in this half
SHMOE_API shmoe_status shmoe_ll_combine_finish(shmoe_ll* ll, int32_t half);

// ---- collectives among all ranks, or some of them with the memory of the others as further ways

/// Where shards wait, of SHMOE_BUFFSIZE MiB: once for all calls. Every member alike; shmoe_memory_free gives it back.
SHMOE_API shmoe_status shmoe_window_allocate(shmoe_communicator* comm, uint64_t* offset, uint64_t* bytes);

typedef struct shmoe_all_to_all_args {
  size_t size;
  const int32_t* members;  // [C] in the order of their chunks; NULL: all ranks
  size_t members_count;
  int32_t type;      // SHMOE_BF16, ...
  int64_t elements;  // L of x, the same on every rank, also on those that only lend memory
  uint64_t window;   // of shmoe_window_allocate
  uint64_t window_bytes;
  const void* x;  // [L] of the type
  size_t x_bytes;
  void* y;  // out: [C * own chunk]
  size_t y_bytes;
  const uint64_t* y_at;  // offset of the same in symmetric memory, in place of y, or NULL
} shmoe_all_to_all_args;

/// y[i] = the chunk that position i has for this rank; the first L mod C positions receive chunks longer by one. All ranks
/// of the communicator call.
/// Order:   on return y is complete and x may change
/// Errors:  as shmoe_ep_dispatch
SHMOE_API shmoe_status shmoe_all_to_all(shmoe_communicator* comm, const shmoe_all_to_all_args* args);

typedef struct shmoe_reduce_scatter_args {
  size_t size;
  const int32_t* members;  // as above, down to window_bytes
  size_t members_count;
  int32_t type;
  int32_t reduction;  // SHMOE_SUM, ...
  int64_t elements;
  uint64_t window;
  uint64_t window_bytes;
  const void* x;  // [L] of the type
  size_t x_bytes;
  const uint64_t* x_at;  // offset of the same in symmetric memory, in place of x, or NULL
  void* y;               // out: [own chunk]
  size_t y_bytes;
} shmoe_reduce_scatter_args;

/// The order of the sums does not depend on cores or schedule: results are equal to the bit.
/// Order:   on return y is complete and x may change
/// Errors:  as shmoe_ep_dispatch
SHMOE_API shmoe_status shmoe_reduce_scatter(shmoe_communicator* comm, const shmoe_reduce_scatter_args* args);

// ---- attention and experts on ranks of their own. A world that uses them says so in its config

typedef struct shmoe_afd shmoe_afd;

typedef struct shmoe_afd_shape {
  size_t size;
  int32_t expert_ranks;  // the first ones; attention rank r belongs to expert rank r mod expert_ranks
  int32_t attention_ranks;
  int64_t max_batch;  // rows of an attention rank at most
  int64_t hidden;     // H
  int32_t topk;       // K; 0: 1
  int32_t type;       // SHMOE_BF16, ...
  int32_t quant;      // SHMOE_QUANT_...
  int32_t no_gate;    // 1: neither expert ids nor scales go with the rows
} shmoe_afd_shape;

/// A window of symmetric memory and the tables. Every member creates and destroys alike.
SHMOE_API shmoe_status shmoe_afd_create(shmoe_communicator* comm, const shmoe_afd_shape* shape, shmoe_afd** afd);
/// Order:   waits for nobody: a barrier comes first
SHMOE_API shmoe_status shmoe_afd_destroy(shmoe_afd* afd);

typedef struct shmoe_a2e_args {
  size_t size;
  int64_t tokens;  // B, of an attention rank
  const void* x;   // [B, H] of the type, of an attention rank
  size_t x_bytes;
  const int32_t* expert_ids;   // [B, K], with a gate
  const float* scales;         // [B, K], with a gate
  const uint8_t* active_mask;  // [B], or NULL: every row is active
  void* expand_x;              // out, of an expert rank: [served * max_batch, H] of the type, or int8
  size_t expand_x_bytes;
} shmoe_a2e_args;

typedef struct shmoe_a2e_tables {
  size_t size;
  int64_t rows;                // an expert rank: of all it serves; an attention rank: its batch
  int32_t batches;             // attention ranks served; of an attention rank: 1
  const int32_t* batch_sizes;  // [batches]
  const uint8_t* active_mask;  // [rows]
  const int32_t* expert_ids;   // [rows, K] of an expert rank with a gate; -1 in rows that are not active
  const float* expert_scales;  // [rows, K], likewise
  const float* row_scales;     // [rows], of int8 rows
} shmoe_a2e_tables;

/// Order:   on return the rows of an expert rank are there; x, ids and scales may change
/// Errors:  as shmoe_ep_dispatch
SHMOE_API shmoe_status shmoe_a2e(shmoe_afd* afd, const shmoe_a2e_args* args);
/// Of the last a2e; pointers stay good until the next one.
SHMOE_API shmoe_status shmoe_afd_tables(shmoe_afd* afd, shmoe_a2e_tables* tables);

typedef struct shmoe_e2a_args {
  size_t size;
  int32_t kind;         // SHMOE_ANSWER_...
  const void* answers;  // of an expert rank: [rows, H] or [rows, K, H] of the type
  size_t answers_bytes;
  void* x;  // out, of an attention rank: [B, H] of the type
  size_t x_bytes;
} shmoe_e2a_args;

/// Order:   on return the rows of an attention rank are in x, and the answers may change
/// Errors:  as shmoe_ep_dispatch
SHMOE_API shmoe_status shmoe_e2a(shmoe_afd* afd, const shmoe_e2a_args* args);

// ---- the published names of the framework, as thin aliases: 0, -3 where a parameter is wrong, -4 of everything else, with the
// text in shmoe_last_error()

typedef struct CamCommunicator* CamComm;

/// A world of `rank_size` ranks, 384 at most. `server_ip_port`: a.b.c.d:port of `length` characters; of 0: CAM_COMM_ID, or a
/// file of the job. On failure `comm` is untouched.
SHMOE_API int32_t CamCreateComm(uint32_t rank_size, uint32_t rank, const char* server_ip_port, uint32_t length,
                                CamComm* comm);
/// CommArgs as the published layout has it, seen as fp16: [597740]. It lives as long as the handle.
SHMOE_API int32_t CamGetCommArgs(CamComm comm, const uint16_t** data, int64_t* elements);
/// Waits for nobody: whoever still reads this rank's window does so before.
SHMOE_API int32_t CamDestroyComm(CamComm comm);

#ifdef __cplusplus
}
#endif
