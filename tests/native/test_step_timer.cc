// Tests the step times of instances with a timer, and that other instances are unaffected.
#include "plans.h"
#include "tests.h"

namespace {

using plans::Maker;
using plans::Role;
using std::vector;

std::unique_ptr<opwright::Instance> TimedInstance(const opwright::Plan& plan) {
  auto instance = std::make_unique<opwright::Instance>(plan, nullptr, nullptr);
  instance->Build();
  instance->TimeSteps();
  return instance;
}

void EveryRunOfAStepIsCounted() {
  Maker make;
  const uint32_t x = make.Outside(Role::kFeed, "x");
  const uint32_t t = make.Temp();
  const uint32_t out = make.Outside(Role::kFetch, "out");
  make.Kernel("add", {x, x}, {t});
  make.Kernel("add", {t, t}, {out});
  make.builder.AddFetch(out);
  const auto plan = make.Build();
  const auto timed = TimedInstance(*plan);
  for (int run = 0; run < 4; ++run) {
    const auto outcome = plans::RunOn(timed.get(), nullptr, {vector<float>(8, 1)});
    CHECK_EQ(outcome.fetches[0][0], 4.0f);
    timed->timer()->EndRun();
    if (run == 0) timed->timer()->Clear();
  }
  CHECK_EQ(timed->timer()->steps().size(), size_t{2});
  for (const auto& times : timed->timer()->steps()) {
    CHECK_EQ(times.runs_ns.size(), size_t{3});
    CHECK_EQ(times.n_calls, int64_t{3});
    for (const int64_t ns : times.runs_ns) CHECK(ns >= 0);
  }
  const opwright::Lease usual(plan, nullptr);
  CHECK(usual->timer() == nullptr);
}

void TheIterationsOfALoopAreTimedTogether() {
  Maker body("body");
  const uint32_t total = body.Outside(Role::kCaptured, "total");
  const uint32_t next = body.Temp();
  body.Kernel("add", {total, total}, {next});
  Maker make;
  const uint32_t x = make.Outside(Role::kFeed, "x");
  const uint32_t t = make.Temp();
  make.builder.AddCopy(x, t, 0);
  opwright::LoopRequest loop;
  loop.body = body.Build();
  loop.max_iterations = 5;
  loop.carried = {{t, 0, next}};
  make.builder.AddLoop(std::move(loop));
  make.builder.AddFetch(t);
  const auto plan = make.Build();
  const auto timed = TimedInstance(*plan);
  for (int run = 0; run < 2; ++run) {
    const auto outcome = plans::RunOn(timed.get(), nullptr, {vector<float>(8, 1)});
    CHECK_EQ(outcome.fetches[0][0], 32.0f);
    timed->timer()->EndRun();
  }
  const auto& inner = timed->child(0)->timer()->steps();
  CHECK_EQ(inner[0].runs_ns.size(), size_t{2});
  CHECK_EQ(inner[0].n_calls, int64_t{10});
}

void PlansThatGoOnAreTimedApartFromThePool() {
  Maker make;
  const uint32_t x = make.Outside(Role::kFeed, "x");
  const uint32_t found = make.Dynamic(plans::kInt64);
  make.Kernel("nonzero", {x}, {found});
  std::shared_ptr<const opwright::Plan> second;
  const auto resolve = [&second](const vector<opwright::Shape>&) {
    Maker after("after");
    const uint32_t given = after.Outside(Role::kCaptured, "x");
    const uint32_t sum = after.Temp();
    after.Kernel("add", {given, given}, {sum});
    after.builder.AddFetch(sum);
    second = after.Build();
    return second;
  };
  make.builder.AddContinuation({found}, resolve, {{x, "x"}});
  const auto plan = make.Build();
  const auto timed = TimedInstance(*plan);
  for (int run = 0; run < 3; ++run) {
    const auto outcome = plans::RunOn(timed.get(), nullptr, {vector<float>(8, 1)});
    CHECK_EQ(outcome.fetches[0][0], 2.0f);
    timed->timer()->EndRun();
  }
  CHECK_EQ(timed->timer()->next().size(), size_t{1});
  const auto& [plan_after, instance_after] = timed->timer()->next()[0];
  CHECK(plan_after == second);
  CHECK_EQ(instance_after->timer()->steps()[0].n_calls, int64_t{3});
  CHECK_EQ(second->n_instances(), int64_t{0});
}

void TheErrorOfATimedStepNamesItsOperator() {
  Maker make;
  const uint32_t x = make.Outside(Role::kFeed, "x");
  make.Kernel("add", {x, x}, {make.Temp()});
  make.Kernel("fail", {x}, {make.Temp()});
  const auto plan = make.Build();
  const auto timed = TimedInstance(*plan);
  const auto failed = plans::RunOn(timed.get(), nullptr, {vector<float>(8, 1)});
  CHECK_EQ(failed.status, OW_ERROR);
  CHECK_EQ(failed.failed_op, 1);
  CHECK_EQ(failed.message, std::string("told to fail"));
  CHECK_EQ(plans::RunOn(timed.get(), nullptr, {vector<float>(8, 0)}).status, OW_OK);
}

}  // namespace

void AddStepTimerTests(check::Tests* tests) {
  tests->push_back({"timed runs are counted", EveryRunOfAStepIsCounted});
  tests->push_back(
      {"the iterations of a loop are timed together", TheIterationsOfALoopAreTimedTogether});
  tests->push_back({"timed plans that go on", PlansThatGoOnAreTimedApartFromThePool});
  tests->push_back(
      {"the error of a timed step names its operator", TheErrorOfATimedStepNamesItsOperator});
}
