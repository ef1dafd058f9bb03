// Tests shared plans and scopes in many threads. The test is meant for ThreadSanitizer but also
// passes without it.
#include <atomic>
#include <mutex>
#include <thread>

#include "check.h"
#include "plans.h"
#include "tests.h"

namespace {

using plans::Maker;
using plans::Role;
using std::vector;

constexpr int kThreads = 8;
constexpr int kRuns = 300;

template <typename Work>
void InThreads(const Work& work) {
  vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back([&work, i] { work(i); });
  for (std::thread& thread : threads) thread.join();
}

// Returns a plan that computes w += x and out = 2 w.
std::shared_ptr<const opwright::Plan> Update() {
  Maker make("update");
  const uint32_t x = make.Outside(Role::kFeed, "x");
  const uint32_t w = make.Outside(Role::kPersistable, "w");
  const uint32_t out = make.Outside(Role::kFetch, "out");
  make.Kernel("add", {w, x}, {w}, 30'000);
  make.Kernel(plans::Prepare("scale", 1, 1, {8}, 2.0), {w}, {out}, 30'000);
  make.builder.SetWrites({"w"});
  return make.Build();
}

void OnePlanManyScopes() {
  const auto plan = Update();
  InThreads([&plan](int i) {
    const auto scope = std::make_shared<opwright::Scope>(nullptr);
    plans::SetVariable(scope.get(), "w", 8, 0);
    for (int run = 1; run <= kRuns; ++run) {
      const auto outcome = plans::Run(plan, scope, {vector<float>(8, static_cast<float>(i))});
      CHECK_EQ(outcome.fetches[0][3], 2.0f * static_cast<float>(i * run));
    }
    CHECK_EQ(plans::FirstOf(*scope, "w"), static_cast<float>(i * kRuns));
  });
  CHECK(plan->n_instances() <= 8);
}

void ScopesThatShareAParentReadOnly() {
  Maker make;
  const uint32_t x = make.Outside(Role::kFeed, "x");
  const uint32_t w = make.Outside(Role::kPersistable, "w");
  make.Kernel("add", {x, w}, {make.Outside(Role::kFetch, "out")});
  const auto plan = make.Build();
  const auto root = std::make_shared<opwright::Scope>(nullptr);
  plans::SetVariable(root.get(), "w", 8, 5);
  InThreads([&](int i) {
    const auto scope = std::make_shared<opwright::Scope>(root);
    for (int run = 0; run < kRuns; ++run) {
      // Structural changes in one scope make all other scopes repeat their lookups.
      if (run % 16 == 0) plans::SetVariable(scope.get(), "own", 4, static_cast<float>(run));
      const auto outcome = plans::Run(plan, scope, {vector<float>(8, static_cast<float>(i))});
      CHECK_EQ(outcome.fetches[0][0], 5.0f + static_cast<float>(i));
    }
  });
}

void PlansAreEvictedWhileTheyRun() {
  std::mutex mutex;
  auto latest = Update();
  InThreads([&](int i) {
    const auto scope = std::make_shared<opwright::Scope>(nullptr);
    plans::SetVariable(scope.get(), "w", 8, 0);
    for (int run = 1; run <= kRuns; ++run) {
      std::shared_ptr<const opwright::Plan> mine;
      {
        const std::lock_guard<std::mutex> lock(mutex);
        if (run % 7 == i % 7) latest = Update();
        mine = latest;
      }
      const std::weak_ptr<const opwright::Plan> watched = mine;
      const auto outcome = plans::Run(mine, scope, {vector<float>(8, 1)});
      CHECK_EQ(outcome.fetches[0][0], 2.0f * static_cast<float>(run));
    }
  });
}

void VariablesAreReplacedWhileOthersRun() {
  Maker make;
  const uint32_t w = make.Outside(Role::kPersistable, "w");
  make.Kernel("add", {w, w}, {make.Outside(Role::kFetch, "out")});
  const auto plan = make.Build();
  const auto scope = std::make_shared<opwright::Scope>(nullptr);
  plans::SetVariable(scope.get(), "w", 8, 1);
  std::atomic<int> n_reading{kThreads};
  std::thread writer([&] {
    for (int i = 0; n_reading > 0; ++i) {
      plans::SetVariable(scope.get(), "w", 8, 1.0f + static_cast<float>(i % 3));
    }
  });
  InThreads([&](int) {
    for (int run = 0; run < kRuns; ++run) {
      const auto outcome = plans::Run(plan, scope, {});
      const float got = outcome.fetches[0][0];
      CHECK(got == 2 || got == 4 || got == 6);
      CHECK_EQ(got, outcome.fetches[0][7]);  // from one tensor, old or new, never a mixture
    }
    --n_reading;
  });
  writer.join();
}

void PackedCopiesFollowTheirVariable() {
  opwright::PrepareRequest request;
  request.device = opwright::HostDevice();
  const plans::Shape shape = {8};
  request.inputs.assign(2, {{shape, plans::kFloat32}});
  request.outputs.assign(1, {{shape, plans::kFloat32}});
  request.arg_flags = {0, OW_ARG_PACKABLE, 0};
  Maker make;
  const uint32_t x = make.Outside(Role::kFeed, "x");
  const uint32_t w = make.Outside(Role::kPersistable, "w");
  make.Kernel(opwright::PrepareNative(find_kernel("packed_add"), request, nullptr), {x, w},
              {make.Outside(Role::kFetch, "out")});
  const auto plan = make.Build();
  InThreads([&](int i) {
    const auto scope = std::make_shared<opwright::Scope>(nullptr);
    for (int run = 0; run < kRuns; ++run) {
      const auto value = static_cast<float>(i + run / 3);
      if (run % 3 == 0) plans::SetVariable(scope.get(), "w", 8, value);
      const auto outcome = plans::Run(plan, scope, {vector<float>(8, 1)});
      CHECK_EQ(outcome.fetches[0][0], 1.0f + value);
    }
  });
}

void SomeRunsFailInTheMiddle() {
  Maker make;
  const uint32_t x = make.Outside(Role::kFeed, "x");
  make.Kernel("fail", {x}, {make.Temp()});
  make.Kernel("add", {x, x}, {make.Outside(Role::kFetch, "out")});
  const auto plan = make.Build();
  InThreads([&plan](int i) {
    for (int run = 0; run < kRuns; ++run) {
      const bool fails = (run + i) % 3 == 0;
      vector<float> given(8, 4);
      given[0] = fails ? 1 : 0;
      const auto outcome = plans::Run(plan, nullptr, {given});
      CHECK_EQ(outcome.status, fails ? OW_ERROR : OW_OK);
      if (!fails) CHECK_EQ(outcome.fetches[0][5], 8.0f);
    }
  });
}

void ChainsGrowInManyThreads() {
  Maker make;
  const uint32_t x = make.Outside(Role::kFeed, "x");
  const uint32_t found = make.Dynamic(plans::kInt64);
  make.Kernel("nonzero", {x}, {found});
  const auto resolve = [](const vector<opwright::Shape>& shapes) {
    Maker next("next");
    const uint32_t given = next.Outside(Role::kCaptured, "x");
    const uint32_t out = next.Temp();
    const auto factor = static_cast<double>(shapes[0][0]);
    next.Kernel(plans::Prepare("scale", 1, 1, {8}, factor), {given}, {out});
    next.builder.AddFetch(out);
    return next.Build();
  };
  make.builder.AddContinuation({found}, resolve, {{x, "x"}});
  const auto plan = make.Build();
  InThreads([&plan](int i) {
    for (int run = 0; run < kRuns; ++run) {
      const int n =
          (i + run) % 9;  // one shape more than the limit: some are evicted while they run
      vector<float> given(8, 0);
      for (int k = 0; k < n; ++k) given[static_cast<size_t>(k)] = 1;
      const auto outcome = plans::Run(plan, nullptr, {given});
      CHECK_EQ(outcome.fetches[0][0], static_cast<float>(n));
    }
  });
}

// Hooks that check that release and acquire alternate, with polls in between.
struct Lock {
  static std::atomic<int>& Held() {
    thread_local std::atomic<int> held{1};
    return held;
  }
  static void Release(opwright::RunState*) { CHECK_EQ(Held().exchange(0), 1); }
  static void Acquire(opwright::RunState*) { CHECK_EQ(Held().exchange(1), 0); }
  static int32_t Poll(opwright::RunState*) { return OW_OK; }
  static int32_t Start(opwright::RunState*, opwright::Instance*) { return OW_OK; }
  static int32_t ForgetError(opwright::RunState*, char*, uint64_t) { return OW_OK; }
};

void LongSpansReleaseOnce() {
  constexpr opwright::RunHooks hooks = {Lock::Release, Lock::Acquire, Lock::Poll, Lock::Start,
                                        Lock::ForgetError};
  Maker body("body");
  const uint32_t c = body.Outside(Role::kCaptured, "c");
  for (int i = 0; i < 3; ++i) body.Kernel("add", {c, c}, {c}, 900'000);
  Maker make;
  const uint32_t x = make.Outside(Role::kFeed, "x");
  const uint32_t t = make.Temp();
  make.builder.AddCopy(x, t, 0);
  make.builder.AddCall(body.Build(), {{t, 0}}, 1);  // a release within a release
  make.builder.AddFetch(t);
  const auto plan = make.Build();
  InThreads([&](int) {
    for (int run = 0; run < 20; ++run) {
      const auto outcome = plans::Run(plan, nullptr, {vector<float>(8, 1)}, &hooks);
      CHECK_EQ(outcome.fetches[0][0], 8.0f);
      CHECK_EQ(Lock::Held().load(), 1);
    }
  });
}

}  // namespace

void AddThreadTests(check::Tests* tests) {
  tests->push_back({"one plan, many scopes", OnePlanManyScopes});
  tests->push_back({"scopes that share a parent", ScopesThatShareAParentReadOnly});
  tests->push_back({"plans evicted while running", PlansAreEvictedWhileTheyRun});
  tests->push_back({"variables replaced while others run", VariablesAreReplacedWhileOthersRun});
  tests->push_back({"packed copies", PackedCopiesFollowTheirVariable});
  tests->push_back({"runs that fail in the middle", SomeRunsFailInTheMiddle});
  tests->push_back({"chains of plans", ChainsGrowInManyThreads});
  tests->push_back({"long spans release once", LongSpansReleaseOnce});
}
