// Tests plans that the device of tape.cc records and replays in many threads.
#include <thread>

#include "plans.h"
#include "runtime/library/plugin_table.h"
#include "runtime/values/tensor.h"
#include "tests.h"

extern "C" int32_t opwright_plugin_v1(const ow_host* host, const ow_plugin** plugin);
extern "C" int64_t tape_count(const char* what);

namespace {

using opwright::ValueKind;
using plans::kFloat32;
using plans::Role;
using std::vector;

const ow_plugin& TapePlugin() {
  const ow_plugin* plugin = nullptr;
  CHECK_EQ(opwright_plugin_v1(nullptr, &plugin), OW_OK);
  opwright::CheckPluginTable(plugin);
  return *plugin;
}

// Returns a plan that computes w = w + x on the tape.
std::shared_ptr<const opwright::Plan> Accumulate(const std::shared_ptr<opwright::Device>& tape) {
  opwright::PlanBuilder builder(tape, "accumulate");
  builder.SetArena(64, nullptr);
  const auto& host = opwright::HostDevice();
  const auto outside = [&](Role role, const char* name, const auto& device) {
    const uint32_t external = builder.AddExternal(role, name, false);
    return builder.AddValue(kFloat32, {8}, ValueKind::kExternal, external, device, nullptr);
  };
  const uint32_t x = outside(Role::kFeed, "x", host);
  const uint32_t w = outside(Role::kPersistable, "w", tape);
  const uint32_t out = outside(Role::kFetch, "out", host);
  const uint32_t there = builder.AddValue(kFloat32, {8}, ValueKind::kArena, 0, tape, nullptr);
  opwright::PrepareRequest metas;
  metas.device = tape;
  metas.inputs.assign(2, {{{8}, kFloat32}});
  metas.outputs.assign(1, {{{8}, kFloat32}});
  opwright::KernelRequest add;
  add.prepared = opwright::PrepareNative(&opwright::KernelAt(TapePlugin(), 0), metas, nullptr);
  add.args = {w, there, w};
  add.slot_begin = {0, 1, 2, 3};
  add.n_inputs = 2;
  add.op_index = 0;
  builder.AddCopy(x, there, 0);
  builder.AddKernel(std::move(add));
  builder.AddCopy(w, out, 0);
  builder.AddFetch(out);
  builder.SetWrites({"w"});
  return builder.Build(nullptr);
}

void SetZero(opwright::Scope* scope, const std::shared_ptr<opwright::Device>& tape) {
  auto tensor = opwright::MakeTensor(tape, kFloat32, {8}, "w");
  const vector<float> zeros(8);
  tape->CopyFromHost(tensor->data(), zeros.data(), 32);
  scope->Var("w")->Replace(std::move(tensor));
}

void ThreadsReplayGraphsOfOnePlan() {
  constexpr int kThreads = 8;
  constexpr int kRuns = 100;
  {
    const auto tape = opwright::MakeRetirable<opwright::Device>(TapePlugin().devices, 0, nullptr);
    const auto plan = Accumulate(tape);
    CHECK_EQ(plan->capture_refusal(), std::string());
    vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&plan, &tape, i] {
        const auto scope = std::make_shared<opwright::Scope>(nullptr);
        SetZero(scope.get(), tape);
        for (int run = 1; run <= kRuns; ++run) {
          if (run % 32 == 0) SetZero(scope.get(), tape);  // its graph becomes invalid
          const auto outcome = plans::Run(plan, scope, {vector<float>(8, static_cast<float>(i))});
          CHECK_EQ(outcome.status, OW_OK);
          const int since = run < 32 ? run : run % 32 + 1;
          CHECK_EQ(outcome.fetches[0][5], static_cast<float>(i * since));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(plan->n_graphs() >= 3);
    CHECK(tape_count("replays") > kThreads * kRuns / 2);
  }
  opwright::FreeRetired();
  CHECK_EQ(tape_count("allocations"), 0);
  CHECK_EQ(tape_count("graphs"), 0);
  CHECK_EQ(tape_count("streams"), 0);
}

}  // namespace

void AddGraphTests(check::Tests* tests) {
  tests->push_back({"threads replay graphs of one plan", ThreadsReplayGraphsOfOnePlan});
}
