// Runs a kernel block by block, with the threads of a block as fibers. A waiting thread yields to
// the next thread, and a barrier opens when all threads have arrived. Three thread orders
// (OPWRIGHT_EMULATOR_ORDER: ascending, descending, random) reveal dependences on the order.
// ThreadSanitizer treats every fiber as a thread.
#include "runtime.h"

#include <string>

#include "block.h"
#include "traps.h"

namespace shim {

namespace {

const Thread* ThisThread() { return Block::current_thread; }
void Barrier(int line) { Block::current->Barrier(line); }
void WarpBarrier(unsigned mask, int line) { Block::current->WarpBarrier(mask, line); }
uint64_t Exchange(unsigned mask, uint64_t value, int from, int line) {
  return Block::current->Exchange(mask, value, from, line);
}
uint64_t Ballot(unsigned mask, bool vote, int line) {
  return Block::current->Ballot(mask, vote, line);
}
void* SharedArray(const void* key, size_t bytes, size_t alignment) {
  return Block::current->SharedArray(key, bytes, alignment);
}
void* Dynamic() { return Block::current->Dynamic(); }

std::string Place(const Dim& block) {
  return "(" + std::to_string(block.x) + ", " + std::to_string(block.y) + ", " +
         std::to_string(block.z) + ")";
}

}  // namespace

const RuntimeTable& TheTable() {
  static const RuntimeTable table = {ThisThread, Barrier,     WarpBarrier, Exchange,
                                     Ballot,     SharedArray, Dynamic};
  return table;
}

Fault RunKernel(const KernelEntry& kernel, const LaunchShape& shape, void* const* params) {
  return RunBlocks(kernel, shape, params, 0, uint64_t{shape.grid.x} * shape.grid.y * shape.grid.z);
}

Fault RunBlocks(const KernelEntry& kernel, const LaunchShape& shape, void* const* params,
                uint64_t first, uint64_t last) {
  static thread_local std::string error;
  error.clear();
  const Traps traps;
  Block block(kernel, shape, params);
  for (uint64_t i = first; i < last; ++i) {
    const Dim place = {static_cast<unsigned>(i % shape.grid.x),
                       static_cast<unsigned>(i / shape.grid.x % shape.grid.y),
                       static_cast<unsigned>(i / shape.grid.x / shape.grid.y)};
    const std::string& wrong = block.Run(place);
    if (wrong.empty()) continue;
    error = std::string(kernel.name) + ", block " + Place(place) + ": " + wrong;
    break;
  }
  return {error.c_str(), block.IsMisaligned()};
}

}  // namespace shim
