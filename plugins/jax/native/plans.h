/* The plans that custom calls run, by key; lookups are lock-free, and their number is bounded. */
#ifndef OPWRIGHT_JAX_PLANS_H_
#define OPWRIGHT_JAX_PLANS_H_

#include <stdatomic.h>
#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))

/* The type of the function `Plan.direct_entry` of opwright. */
typedef int32_t (*plan_run)(const void* plan, void* const* feeds, void* const* results,
                            char* message, uint64_t message_bytes);

/* The digest of a call's text; never {0, 0}. */
typedef struct plan_key {
  uint64_t high;
  uint64_t low;
} plan_key;

typedef struct plan_slot {
  _Atomic uint64_t high;
  _Atomic uint64_t low;
  _Atomic int32_t users; /* runs that are in it now */
  _Atomic uint64_t used; /* when it was used last, by the count of runs */
  plan_run run;
  const void* plan;
  uint64_t* bytes; /* of each argument, then of each result */
  uint32_t* order; /* the argument that each feed of the plan is */
  uint32_t n_args;
  uint32_t n_results;
  uint32_t n_feeds;
  int64_t number; /* the key of the plan in Python */
} plan_slot;

/* The slot of a key, which stays unchanged until `plan_leave`; NULL if there is none. */
plan_slot* plan_enter(plan_key key);
void plan_leave(plan_slot* slot);

#endif /* OPWRIGHT_JAX_PLANS_H_ */
