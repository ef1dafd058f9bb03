// Code shared by cpu.lstm_train and its gradient. The LSTM is unidirectional. Only the gates, and
// the cells before each segment of steps, are kept; from these, the gradient recomputes all other
// cells and the states, one segment at a time.
#ifndef OPWRIGHT_CPU_RECURRENT_LSTM_TRAIN_H_
#define OPWRIGHT_CPU_RECURRENT_LSTM_TRAIN_H_

#include <algorithm>
#include <cstdint>

#include "recurrent/attributes.h"
#include "recurrent/recurrent.h"

namespace opwright_cpu {

struct LstmTrainShape : RecurrentShape {
  int64_t part_steps = 1;

  opwright::Status Describe(opwright::PrepareContext& ctx, const LstmTrainAttrs& attrs) {
    const RecurrentAttrs same{false, attrs.batch_first, {}};
    OPWRIGHT_RETURN_IF_ERROR(MakeRecurrentShape(ctx, true, true, same, this));
    if (rows() == 0 || size == 0) {
      return opwright::Status::Refused("is for steps of some rows, got ", steps, " steps of ", n,
                                       " rows of ", size);
    }
    part_steps = std::min(attrs.part_steps, steps);
    return opwright::Status::Ok();
  }

  // Sets the kernel's workspace to the arena memory that `take` allocates, and its estimate to the
  // time of the multiplications.
  template <typename T, typename Take>
  void Request(opwright::PrepareContext& ctx, int64_t per_nanosecond, const Take& take) const {
    Arena<T> arena(nullptr);
    take(&arena);
    ctx.SetWorkspace(static_cast<uint64_t>(arena.taken()) * sizeof(T));
    const int64_t time = Multiplications() / (per_nanosecond * ctx.n_threads());
    ctx.SetEstimate(static_cast<uint64_t>(1000 + time));
  }

  int64_t each() const { return n * size; }
  int64_t parts() const { return (steps + part_steps - 1) / part_steps; }

  // Segments are counted from the end, so the first segment may be shorter.
  Part StepsOf(int64_t part) const {
    const int64_t end = steps - (parts() - 1 - part) * part_steps;
    return {std::max<int64_t>(0, end - part_steps), end};
  }
};

}  // namespace opwright_cpu

#endif  // OPWRIGHT_CPU_RECURRENT_LSTM_TRAIN_H_
