#include "reduction/reducer.h"

#include <algorithm>
#include <cstddef>

#include "common/parallel.h"

namespace opwright_cpu::reducer {
namespace {

// Elements per chunk of a line that several threads share. The size is fixed so that results do not
// depend on the number of threads.
constexpr int64_t kChunk = 65536;
// From this number of results on, each thread processes complete lines.
constexpr int64_t kManyLines = 64;
constexpr int64_t kManyColumns = 2048;

const char* At(const void* x, int64_t bytes) { return static_cast<const char*>(x) + bytes; }
char* At(void* x, int64_t bytes) { return static_cast<char*>(x) + bytes; }

}  // namespace

// The work of one stage. `loops` reduces the stage input, and `again` the results of its chunks.
struct Stages::Step {
  const Loops& loops;
  const Loops& again;
  const void* x;
  void* out;
  void* partial;
};

Stages::Stages(const std::vector<int64_t>& dims, const std::vector<bool>& reduced,
               int64_t result_bytes)
    : numel_(Product(dims, 0, dims.size())), result_bytes_(result_bytes) {
  std::vector<Span> spans = Collapse(dims, reduced);
  int64_t between = 0;  // elements of all intermediate results
  for (size_t i = spans.size(); i-- > 0;) {
    if (!spans[i].reduced) continue;
    Lines lines;
    lines.length = spans[i].size;
    for (size_t j = 0; j < i; ++j) lines.outer *= spans[j].size;
    for (size_t j = i + 1; j < spans.size(); ++j) lines.inner *= spans[j].size;
    spans.erase(spans.begin() + static_cast<std::ptrdiff_t>(i));
    stages_.push_back(MakeStage(lines));
    const Stage& stage = stages_.back();
    if (stage.n_chunks > 1) {
      partials_ = std::max(partials_, stage.lines.count() * stage.n_chunks);
    }
    between += lines.count();
  }
  if (!stages_.empty()) between -= stages_.back().lines.count();
  workspace_bytes_ = static_cast<uint64_t>((partials_ + between) * result_bytes);
}

Stages::Stage Stages::MakeStage(const Lines& lines) {
  Stage stage;
  stage.lines = lines;
  const bool enough = lines.inner == 1 ? lines.outer >= kManyLines : lines.count() >= kManyColumns;
  if (enough || lines.length * lines.inner < 2 * kChunk) return stage;
  stage.chunk = std::max<int64_t>(kChunk / lines.inner, 8);
  stage.n_chunks = (lines.length + stage.chunk - 1) / stage.chunk;
  return stage;
}

void Stages::RunChunks(const Stage& stage, const Step& step, int32_t n_threads) {
  const int64_t length = stage.lines.length, inner = stage.lines.inner;
  const Loops& loops = step.loops;
  const int64_t n_pieces = stage.lines.outer * stage.n_chunks;
  ParallelFor(n_threads, n_pieces, 1, 1, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t first = piece % stage.n_chunks * stage.chunk;
      const int64_t rows = std::min(stage.chunk, length - first);
      const int64_t at = (piece / stage.n_chunks * length + first) * inner;
      const void* from = At(step.x, at * loops.item_bytes);
      void* to = At(step.partial, piece * inner * step.again.item_bytes);
      if (inner == 1) {
        loops.rows(from, 1, rows, to);
      } else {
        loops.columns(from, rows, inner, 0, inner, to);
      }
    }
  });
}

void Stages::RunStage(const Stage& stage, const Step& step, int32_t n_threads) {
  const Lines& lines = stage.lines;
  const int64_t length = lines.length, inner = lines.inner;
  const Loops& loops = step.loops;
  if (stage.n_chunks > 1) {
    RunChunks(stage, step, n_threads);
    Stage rest;
    rest.lines = Lines{lines.outer, stage.n_chunks, inner};
    RunStage(rest, Step{step.again, step.again, step.partial, step.out, nullptr}, 1);
  } else if (inner == 1) {
    ParallelFor(n_threads, lines.outer, kElementGrain / length, 1, [&](int64_t begin, int64_t end) {
      loops.rows(At(step.x, begin * length * loops.item_bytes), end - begin, length,
                 At(step.out, begin * step.again.item_bytes));
    });
  } else {
    // Narrow rows are merged only if a part contains all of their columns.
    const int64_t columns = inner <= kNarrow ? inner : 64;
    ParallelFor(n_threads, lines.count(), std::max<int64_t>(64, kElementGrain / length), columns,
                [&](int64_t begin, int64_t end) {
                  loops.columns(step.x, length, inner, begin, end, step.out);
                });
  }
}

void Stages::Run(const Loops& first, const Loops& rest, const void* x, void* out, void* workspace,
                 int32_t n_threads) const {
  void* const partial = workspace;
  void* result = At(workspace, partials_ * result_bytes_);
  for (size_t i = 0; i < stages_.size(); ++i) {
    void* to = i + 1 == stages_.size() ? out : result;
    RunStage(stages_[i], Step{i == 0 ? first : rest, rest, x, to, partial}, n_threads);
    x = to;
    result = At(result, stages_[i].lines.count() * result_bytes_);
  }
}

}  // namespace opwright_cpu::reducer
