#include "plans.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A key is stored in one of the kWays slots that begin at its position. */
enum { kSlots = 4096, kWays = 8 };

static plan_slot slots[kSlots + kWays];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of the writers of slots */
static _Atomic uint64_t n_runs;

static plan_slot* first_of(plan_key key) { return &slots[key.low % kSlots]; }

static int is_of(plan_slot* slot, plan_key key) {
  return atomic_load(&slot->low) == key.low && atomic_load(&slot->high) == key.high;
}

plan_slot* plan_enter(plan_key key) {
  plan_slot* slot = first_of(key);
  for (int i = 0; i < kWays; ++i, ++slot) {
    if (!is_of(slot, key)) continue;
    atomic_fetch_add(&slot->users, 1);
    if (is_of(slot, key)) {
      /* Concurrent increments may be lost, since the count only orders uses. */
      const uint64_t now = atomic_load_explicit(&n_runs, memory_order_relaxed) + 1;
      atomic_store_explicit(&n_runs, now, memory_order_relaxed);
      atomic_store_explicit(&slot->used, now, memory_order_relaxed);
      return slot;
    }
    atomic_fetch_sub(&slot->users, 1);
  }
  return NULL;
}

void plan_leave(plan_slot* slot) { atomic_fetch_sub(&slot->users, 1); }

static void set_key(plan_slot* slot, plan_key key) {
  atomic_store(&slot->high, key.high);
  atomic_store(&slot->low, key.low);
}

/* Detaches a slot from its key unless a thread uses it; returns whether it succeeded. */
static int take(plan_slot* slot) {
  const plan_key key = {atomic_load(&slot->high), atomic_load(&slot->low)};
  set_key(slot, (plan_key){0, 0});
  if (atomic_load(&slot->users) == 0) return 1;
  set_key(slot, key);
  return 0;
}

/* Empties and returns the slot to fill: an unused slot, or the least recently used slot. */
static plan_slot* find_room(plan_key key) {
  plan_slot* first = first_of(key);
  for (int tries = 0; tries < kWays; ++tries) {
    plan_slot* oldest = NULL;
    for (plan_slot* slot = first; slot != first + kWays; ++slot) {
      if (atomic_load(&slot->users) != 0) continue;
      if (oldest == NULL || slot->plan == NULL ||
          (oldest->plan != NULL && atomic_load(&slot->used) < atomic_load(&oldest->used))) {
        oldest = slot;
      }
    }
    if (oldest != NULL && take(oldest)) return oldest;
  }
  return NULL;
}

static void* copy_of(const void* data, size_t size) {
  void* copy = malloc(size == 0 ? 1 : size);
  if (copy != NULL && size != 0) memcpy(copy, data, size);
  return copy;
}

static void fill(plan_slot* slot, const plan_slot* content, plan_key key) {
  free(slot->bytes);
  free(slot->order);
  slot->run = content->run;
  slot->plan = content->plan;
  slot->bytes = content->bytes;
  slot->order = content->order;
  slot->n_args = content->n_args;
  slot->n_results = content->n_results;
  slot->n_feeds = content->n_feeds;
  slot->number = content->number;
  atomic_store(&slot->used, atomic_load(&n_runs));
  set_key(slot, key);
}

/*
 * Adds a plan, whose number Python has chosen. Returns the number of a plan that is unused from now
 * on: an evicted plan, or this plan if its key has a plan or no slot or memory is free; or -1.
 * `bytes` has the size of each argument, then of each result; `order` the argument that each feed
 * of the plan is.
 */
EXPORTED int64_t opwright_jax_add(uint64_t high, uint64_t low, const void* plan, plan_run run,
                                  uint32_t n_args, uint32_t n_results, const uint64_t* bytes,
                                  uint32_t n_feeds, const uint32_t* order, int64_t number) {
  const plan_key key = {high, low};
  plan_slot content = {.run = run,
                       .plan = plan,
                       .bytes = copy_of(bytes, ((size_t)n_args + n_results) * sizeof(*bytes)),
                       .order = copy_of(order, n_feeds * sizeof(*order)),
                       .n_args = n_args,
                       .n_results = n_results,
                       .n_feeds = n_feeds,
                       .number = number};
  int64_t left = number;
  pthread_mutex_lock(&mutex);
  plan_slot* known = plan_enter(key);
  if (known != NULL) plan_leave(known);
  const int is_whole = content.bytes != NULL && content.order != NULL;
  plan_slot* slot = known == NULL && is_whole ? find_room(key) : NULL;
  if (slot != NULL) {
    left = slot->plan == NULL ? -1 : slot->number;
    fill(slot, &content, key);
  } else {
    free(content.bytes);
    free(content.order);
  }
  pthread_mutex_unlock(&mutex);
  return left;
}
