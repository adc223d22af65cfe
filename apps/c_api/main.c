// One MoE step through the C interface: layout, notify, dispatch, experts, combine; every sum is checked.
// usage: mpirun --oversubscribe -np 2 c_api [--break]
//   --break   rank 1 leaves combine out

#include <shmoe.h>
#include <stdio.h>
#include <string.h>

enum { RANKS = 2, EXPERTS = 4, TOKENS = 3, TOPK = 2, HIDDEN = 4 };

// [routing]
// Two ranks, four experts, two experts a token. Experts 0 and 1 are on rank 0, experts 2 and 3 on rank 1.
static const int64_t chosen[RANKS][TOKENS * TOPK] = {{0, 2, 2, 1, 3, 2}, {1, 3, 0, 1, 1, 0}};
static const float weights[RANKS][TOKENS * TOPK] = {{.75F, .25F, .5F, .5F, .625F, .375F},
                                                    {.5F, .5F, .25F, .75F, .875F, .125F}};

typedef struct batch {
  float row[TOKENS][HIDDEN];
} batch;

// Each number occurs once.
static batch tokens_of(int rank) {
  batch x;
  for (int i = 0; i < TOKENS * HIDDEN; ++i) x.row[i / HIDDEN][i % HIDDEN] = (float)(12 * rank + i + 1);
  return x;
}
// [/routing]

#define TRY(call)                            \
  do {                                       \
    const shmoe_status status_ = (call);     \
    if (status_ != SHMOE_OK) return status_; \
  } while (0)

// [experts]
// Expert e answers x * (e + 1). The rows of one expert lie together.
static void run_experts(const shmoe_rows* rows) {
  const float* x = rows->x;
  float* answer = rows->answers;
  for (int32_t group = 0; group < rows->groups; ++group) {
    const float factor = (float)(rows->experts[group] + 1);
    for (int64_t i = 0; i < rows->rows_of_expert[group] * HIDDEN; ++i) *answer++ = *x++ * factor;
  }
}
// [/experts]

// [step]
static shmoe_status moe_step(shmoe_ep* ep, int rank, int leave_combine_out, batch* y) {
  const batch x = tokens_of(rank);
  TRY(shmoe_ep_layout(ep, chosen[rank], weights[rank], TOKENS));
  TRY(shmoe_ep_notify(ep));
  const shmoe_ep_dispatch_args sent = {.size = sizeof sent, .x = &x, .x_bytes = sizeof x};
  TRY(shmoe_ep_dispatch(ep, &sent));

  shmoe_rows rows = {.size = sizeof rows};
  TRY(shmoe_ep_rows(ep, &rows));
  run_experts(&rows);

  if (leave_combine_out) return SHMOE_OK;
  const shmoe_ep_combine_args summed = {.size = sizeof summed, .x = y, .x_bytes = sizeof *y};
  return shmoe_ep_combine(ep, &summed);
}
// [/step]

// Token t comes back as the sum of weight * (expert + 1) of it; all these sums are exact.
static int wrong_sums(int rank, const batch* y) {
  const batch x = tokens_of(rank);
  int wrong = 0;
  for (int t = 0; t < TOKENS; ++t) {
    float factor = 0;
    for (int k = 0; k < TOPK; ++k) factor += weights[rank][t * TOPK + k] * (float)(chosen[rank][t * TOPK + k] + 1);
    for (int h = 0; h < HIDDEN; ++h)
      wrong += y->row[t][h] < x.row[t][h] * factor || y->row[t][h] > x.row[t][h] * factor;
  }
  return wrong;
}

static void print_sums(int rank, const batch* y) {
  for (int t = 0; t < TOKENS; ++t) {
    printf("rank %d token %d:", rank, t);
    for (int k = 0; k < TOPK; ++k) {
      printf(" %g of expert %d,", (double)weights[rank][t * TOPK + k], (int)chosen[rank][t * TOPK + k]);
    }
    printf(" together");
    for (int h = 0; h < HIDDEN; ++h) printf(" %g", (double)y->row[t][h]);
    printf("\n");
  }
  printf("rank %d: %d of %d sums are wrong\n", rank, wrong_sums(rank, y), TOKENS * HIDDEN);
}

// [gather]
// Hands the sums of all ranks to each of them: an all-to-all in which every chunk is the same.
static shmoe_status gather(shmoe_communicator* all, const batch* mine, batch everyone[RANKS]) {
  batch copies[RANKS];
  for (int rank = 0; rank < RANKS; ++rank) copies[rank] = *mine;
  uint64_t place = 0;
  TRY(shmoe_memory_allocate(all, sizeof copies, &place));
  const shmoe_all_to_all_args args = {.size = sizeof args,
                                      .type = SHMOE_FP32,
                                      .elements = RANKS * TOKENS * HIDDEN,
                                      .x = copies,
                                      .x_bytes = sizeof copies,
                                      .y_at = &place};
  TRY(shmoe_all_to_all(all, &args));
  void* received = NULL;
  TRY(shmoe_memory_local(all, place, sizeof copies, &received));
  memcpy(everyone, received, sizeof copies);
  return shmoe_memory_free(all, place);
}
// [/gather]

// [main]
static shmoe_status run(shmoe_world* world, int leave_combine_out, int* wrong) {
  int32_t rank = 0;
  int32_t ranks = 0;
  TRY(shmoe_world_rank(world, &rank));
  TRY(shmoe_world_size(world, &ranks));
  if (ranks != RANKS) {
    fprintf(stderr, "c_api: %d ranks; start it with: shmoe run -n %d -- c_api\n", (int)ranks, RANKS);
    *wrong = 1;
    return SHMOE_OK;
  }
  shmoe_communicator* all = NULL;
  TRY(shmoe_communicator_all(world, &all));
  const shmoe_ep_shape shape = {
      .size = sizeof shape, .experts = EXPERTS, .topk = TOPK, .hidden = HIDDEN, .type = SHMOE_FP32};
  shmoe_ep* ep = NULL;
  TRY(shmoe_ep_create(all, &shape, &ep));
  batch y = {{{0}}};
  TRY(moe_step(ep, rank, leave_combine_out && rank == 1, &y));
  batch everyone[RANKS];
  TRY(gather(all, &y, everyone));
  for (int r = 0; r < RANKS; ++r) *wrong += wrong_sums(r, &everyone[r]);
  for (int r = 0; r < RANKS && rank == 0; ++r) print_sums(r, &everyone[r]);
  TRY(shmoe_ep_destroy(ep));
  return shmoe_communicator_destroy(all);
}

int main(int argc, char** argv) {
  shmoe_world* world = NULL;
  int wrong = 0;
  shmoe_status status = shmoe_world_create(NULL, &world);
  if (status == SHMOE_OK) status = run(world, argc > 1 && strcmp(argv[1], "--break") == 0, &wrong);
  if (status == SHMOE_OK) status = shmoe_world_finalize(world);
  if (status != SHMOE_OK) {
    fprintf(stderr, "c_api: %s\n", shmoe_last_error());
    if (world != NULL) shmoe_world_abort(world);  // nobody waits for a rank that gave up
    return 1;
  }
  shmoe_world_destroy(world);
  return wrong == 0 ? 0 : 1;
}
// [/main]
