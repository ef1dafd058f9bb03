// Tests steps, children, dynamic shapes and failures of plans without Python.
#include "check.h"
#include "plans.h"
#include "tests.h"

namespace {

using opwright::ErrorKind;
using plans::Maker;
using plans::Role;
using std::vector;

void StepsRunInOrder() {
  Maker make;
  const uint32_t x = make.Outside(Role::kFeed, "x");
  const uint32_t t = make.Temp();
  const uint32_t out = make.Outside(Role::kFetch, "out");
  make.Kernel("add", {x, x}, {t});
  make.Kernel(plans::Prepare("scale", 1, 1, {8}, 3.0), {t}, {out});
  const auto outcome = plans::Run(make.Build(), nullptr, {vector<float>(8, 2)});
  CHECK_EQ(outcome.status, OW_OK);
  CHECK_EQ(outcome.fetches[0][7], 12.0f);
}

void AFailureStopsThePlanAndTheNextRunIsComplete() {
  Maker make;
  const uint32_t x = make.Outside(Role::kFeed, "x");
  const uint32_t w = make.Outside(Role::kPersistable, "w");
  make.Kernel("add", {w, w}, {w});
  make.Kernel("fail", {x}, {make.Temp()});
  make.Kernel("add", {w, w}, {w});
  make.builder.SetWrites({"w"});
  const auto plan = make.Build();
  const auto scope = std::make_shared<opwright::Scope>(nullptr);
  plans::SetVariable(scope.get(), "w", 8, 1);
  const uint64_t version = scope->Var("w")->version();
  const auto failed = plans::Run(plan, scope, {vector<float>(8, 1)});
  CHECK_EQ(failed.status, OW_ERROR);
  CHECK_EQ(failed.failed_op, 1);
  CHECK_EQ(failed.message, std::string("told to fail"));
  CHECK_EQ(plans::FirstOf(*scope, "w"), 2.0f);
  CHECK(scope->Var("w")->version() > version);
  CHECK_EQ(plans::Run(plan, scope, {vector<float>(8, 0)}).status, OW_OK);
  CHECK_EQ(plans::FirstOf(*scope, "w"), 8.0f);
}

std::shared_ptr<const opwright::Plan> DoublingChild() {
  Maker make("child");
  const uint32_t x = make.Outside(Role::kCaptured, "x");
  const uint32_t out = make.Outside(Role::kCaptured, "out");
  make.Kernel("add", {x, x}, {out});
  return make.Build();
}

void ChildrenShareTheParentsMemory() {
  Maker make;
  const uint32_t x = make.Outside(Role::kFeed, "x");
  const uint32_t t = make.Temp();
  const uint32_t out = make.Outside(Role::kFetch, "out");
  const uint32_t condition = make.Temp(plans::kBool, {1});
  const auto child = DoublingChild();
  make.builder.AddCall(child, {{x, 0}, {t, 1}}, 0);
  make.Kernel("less", {x, t}, {condition});
  make.builder.AddBranch(condition, {child, {{t, 0}, {out, 1}}}, {child, {{x, 0}, {out, 1}}}, 1);
  const auto plan = make.Build();
  CHECK_EQ(plans::Run(plan, nullptr, {vector<float>(8, 1)}).fetches[0][0], 4.0f);
  CHECK_EQ(plans::Run(plan, nullptr, {vector<float>(8, -1)}).fetches[0][0], -2.0f);
}

void ALoopRunsUntilItsLimitOrItsCondition() {
  for (const bool has_condition : {false, true}) {
    Maker body("body");
    const uint32_t total = body.Outside(Role::kCaptured, "total");
    const uint32_t limit = body.Outside(Role::kCaptured, "limit");
    const uint32_t next = body.Temp();
    const uint32_t go = body.Temp(plans::kBool, {1});
    body.Kernel("add", {total, total}, {next});
    body.Kernel("less", {next, limit}, {go});
    Maker make;
    const uint32_t x = make.Outside(Role::kFeed, "x");
    const uint32_t bound = make.Outside(Role::kFeed, "bound");
    const uint32_t t = make.Temp();
    make.builder.AddCopy(x, t, 0);
    opwright::LoopRequest loop;
    loop.body = body.Build();
    loop.condition = has_condition ? static_cast<int64_t>(go) : -1;
    loop.max_iterations = has_condition ? -1 : 3;
    loop.carried = {{t, 0, next}};
    loop.bindings = {{bound, 1}};
    make.builder.AddLoop(std::move(loop));
    make.builder.AddFetch(t);
    const auto plan = make.Build();
    for (int run = 0; run < 2; ++run) {
      const auto outcome = plans::Run(plan, nullptr, {vector<float>(8, 1), vector<float>(8, 100)});
      CHECK_EQ(outcome.fetches[0][0], has_condition ? 128.0f : 8.0f);
    }
  }
}

void DynamicShapesChooseTheNextPlan() {
  int made = 0;
  Maker make;
  const uint32_t x = make.Outside(Role::kFeed, "x");
  const uint32_t found = make.Dynamic(plans::kInt64);
  make.Kernel("nonzero", {x}, {found});
  const auto resolve = [&made](const vector<opwright::Shape>& shapes) {
    ++made;
    Maker next("next");
    const uint32_t given = next.Outside(Role::kCaptured, "x");
    const uint32_t out = next.Temp();
    next.Kernel(plans::Prepare("scale", 1, 1, {8}, static_cast<double>(shapes[0][0])), {given},
                {out});
    next.builder.AddFetch(out);
    return next.Build();
  };
  make.builder.AddContinuation({found}, resolve, {{x, "x"}});
  const auto plan = make.Build();
  for (int run = 0; run < 30; ++run) {
    vector<float> given(8, 0);
    const int n = run % 9;
    for (int i = 0; i < n; ++i) given[static_cast<size_t>(i)] = 1;
    const auto outcome = plans::Run(plan, nullptr, {given});
    CHECK_EQ(outcome.status, OW_OK);
    CHECK_EQ(outcome.fetches[0][0], n == 0 ? 0.0f : static_cast<float>(n));
  }
  CHECK(made > 9);  // nine shapes, eight of which are kept
}

void AKernelThatNeverResizesFails() {
  Maker make;
  const uint32_t found = make.Dynamic(plans::kFloat32);
  make.Kernel("lazy", {make.Outside(Role::kFeed, "x")}, {found});
  make.builder.AddFetch(found);
  const auto outcome = plans::Run(make.Build(), nullptr, {vector<float>(8, 1)});
  CHECK_EQ(outcome.status, OW_ERROR);
  CHECK(outcome.message.find("must resize") != std::string::npos);
}

void TheErrorForImpossibleMemoryStatesItsSize() {
  Maker make("huge");
  make.builder.SetArena(uint64_t{1} << 62, nullptr);
  const auto plan = make.Build();
  CHECK_THROWS(plans::Run(plan, nullptr, {}), ErrorKind::kOutOfMemory, "4611686018427387904 bytes");
  CHECK_EQ(plan->n_instances(), 0);
  CHECK_THROWS(make.builder.AddFetch(0), ErrorKind::kProgram, "already built");
  Maker other;
  CHECK_THROWS(other.Temp(plans::kFloat32, {int64_t{1} << 32, int64_t{1} << 32}), ErrorKind::kShape,
               "64 bits");
}

void AnIncompleteTableIsRefused() {
  const opwright::PrepareRequest request = [] {
    opwright::PrepareRequest made;
    made.device = opwright::HostDevice();
    return made;
  }();
  ow_kernel kernel = *find_kernel("add");
  kernel.run = nullptr;
  CHECK_THROWS(opwright::PrepareNative(&kernel, request, nullptr), ErrorKind::kPlugin, "needs");
  kernel = *find_kernel("add");
  kernel.size = 8;
  CHECK_THROWS(opwright::PrepareNative(&kernel, request, nullptr), ErrorKind::kPlugin, "ABI 1.0");
  CHECK_THROWS(plans::Prepare("refuse", 0, 0, {8}), ErrorKind::kRefused, "1 threads are too many");
}

}  // namespace

void AddPlanTests(check::Tests* tests) {
  tests->push_back({"steps run in order", StepsRunInOrder});
  tests->push_back({"a failure stops the plan and the next run is complete",
                    AFailureStopsThePlanAndTheNextRunIsComplete});
  tests->push_back({"children share memory", ChildrenShareTheParentsMemory});
  tests->push_back({"loops", ALoopRunsUntilItsLimitOrItsCondition});
  tests->push_back({"dynamic shapes", DynamicShapesChooseTheNextPlan});
  tests->push_back({"a kernel that never resizes", AKernelThatNeverResizesFails});
  tests->push_back({"the error for impossible memory states its size",
                    TheErrorForImpossibleMemoryStatesItsSize});
  tests->push_back({"an incomplete table is refused", AnIncompleteTableIsRefused});
}
