// The loop, a structural step that repeatedly runs the plan of its body.
#include <algorithm>
#include <new>
#include <string>

#include "runtime/library/host.h"
#include "runtime/plan/structural.h"

namespace opwright {

namespace {

constexpr uint64_t kPollIntervalNs = 1'000'000;
// The assumed duration of a body without an estimate; it makes the loop check for Ctrl-C regularly.
constexpr uint64_t kLeastIterationNs = 1'000;
// The initial capacity of a growing array, in iterations.
constexpr int64_t kFirstTurns = 16;

// One run of a loop.
class Turns {
 public:
  Turns(const ow_call* call, Instance* parent)
      : parent_(*parent),
        loop_(DetailOf<LoopDetail>(call)),
        body_(*parent->child(loop_.body.slot)),
        call_(*call),
        error_(parent->error()) {}

  int32_t Run() {
    Bind();
    int32_t status = ReadStart();
    int64_t i = 0;
    uint64_t since_poll_ns = 0;
    const uint64_t iteration_ns = std::max(body_.plan().estimate_ns, kLeastIterationNs);
    for (; status == OW_OK && again_; ++i) {
      if (i == count_) {
        if (loop_.condition < 0) break;
        return FailAtLimit();
      }
      if (i == capacity_) status = Grow(std::max<int64_t>(2 * i, kFirstTurns), i);
      if (status == OW_OK) status = RunOne(loop_.reverse ? count_ - 1 - i : i);
      since_poll_ns += iteration_ns;
      if (status == OW_OK && since_poll_ns >= kPollIntervalNs) {
        status = Poll(parent_.state());
        since_poll_ns = 0;
      }
    }
    if (status == OW_OK && (i == 0 || i != capacity_)) status = Grow(i, i);
    if (status == OW_OK && loop_.turns_taken >= 0) status = WriteTurns(i);
    return status;
  }

 private:
  // Grows the arrays that have one element per iteration while iterations run. The first `n_kept`
  // elements are kept.
  int32_t Grow(int64_t n_turns, int64_t n_kept) {
    capacity_ = n_turns;
    int32_t status = OW_OK;
    for (const Elements& one : loop_.stacks) {
      const Plan& plan = parent_.plan();
      const auto value = static_cast<uint32_t>(one.value);
      if (status != OW_OK || one.value < 0 || !plan.IsDynamic(value)) continue;
      const Owner old = n_kept > 0 ? parent_.OwnerOf(value) : Owner{};
      const void* elements = parent_.tensor(value).data;
      const int64_t* declared = plan.dims.data() + plan.values[value].dims_begin;
      Shape shape(declared, declared + plan.values[value].ndim);
      shape[0] = n_turns;
      try {
        parent_.Resize(value, plan.values[value].ndim, shape.data());
      } catch (const std::exception& error) {
        const bool is_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
        Fail(error.what());
        return is_memory ? OW_OUT_OF_MEMORY : OW_ERROR;
      }
      if (n_kept == 0) continue;
      status = CopyWithin(value, parent_.tensor(value).data, elements,
                          static_cast<uint64_t>(n_kept) * one.bytes);
    }
    return status;
  }

  void Bind() {
    parent_.BindCaptured(&body_, loop_.body.bindings);
    for (const Carried& carried : loop_.carried) {
      body_.SetExternal(carried.external, parent_.tensor(carried.value).data, nullptr);
    }
    for (const auto* list : {&loop_.sequences, &loop_.stacks}) {
      for (const Elements& one : *list) {
        if (one.staging < 0) continue;
        body_.SetExternal(one.external, parent_.staging(one.staging)->handle(), nullptr);
      }
    }
  }

  // Reads the maximum number of iterations, and whether there is a first iteration.
  int32_t ReadStart() {
    count_ = loop_.max_iterations;
    int32_t status = OW_OK;
    if (loop_.turns >= 0) {
      status = ReadNumber(&parent_, static_cast<uint32_t>(loop_.turns), error_, &count_);
      if (status == OW_OK && (count_ < 0 || count_ > loop_.max_iterations)) {
        return Fail(
            Concat("the iteration count must be in [0, ", loop_.max_iterations, "], got ", count_));
      }
    }
    if (status == OW_OK && loop_.initial >= 0) {
      status = ReadCondition(&parent_, static_cast<uint32_t>(loop_.initial), error_, &again_);
    }
    return status;
  }

  int32_t RunOne(int64_t position) {
    int32_t status = OW_OK;
    for (const Elements& one : loop_.sequences) {
      if (status == OW_OK) status = Show(one, position, true);
    }
    for (const Elements& one : loop_.stacks) {
      if (one.staging < 0) Show(one, position, false);
    }
    if (status == OW_OK) status = RunAsChild(&body_, parent_.state());
    // The condition is read before carried values move, since it may be a carried value.
    if (status == OW_OK && loop_.condition >= 0) {
      status = ReadCondition(&body_, static_cast<uint32_t>(loop_.condition), error_, &again_);
    }
    for (const Elements& one : loop_.stacks) {
      if (status != OW_OK || one.staging < 0 || one.value < 0) continue;
      status = CopyWithin(static_cast<uint32_t>(one.value), At(one, position),
                          parent_.staging(one.staging)->handle(), one.bytes);
    }
    return status == OW_OK ? CarryOver() : status;
  }

  char* At(const Elements& one, int64_t position) {
    auto* data = static_cast<char*>(parent_.tensor(static_cast<uint32_t>(one.value)).data);
    if (data == nullptr) return nullptr;
    return data + one.offset + static_cast<uint64_t>(position) * one.bytes;
  }

  // Binds the loop body to an element of an array or to a copy of the element.
  int32_t Show(const Elements& one, int64_t position, bool is_read) {
    if (one.staging < 0) {
      body_.SetExternal(one.external, At(one, position), nullptr);
      return OW_OK;
    }
    if (!is_read) return OW_OK;
    return CopyWithin(static_cast<uint32_t>(one.value), parent_.staging(one.staging)->handle(),
                      At(one, position), one.bytes);
  }

  // Copies memory within the device of a parent value.
  int32_t CopyWithin(uint32_t value, void* destination, const void* source, uint64_t bytes) {
    if (destination == source || bytes == 0) return OW_OK;
    const uint32_t index = parent_.plan().values[value].device;
    Device& device = *parent_.plan().devices[index].device;
    return device.Copy(parent_.stream(index), destination, device.is_host(), source,
                       device.is_host(), bytes, &error_);
  }

  // Copies the results of the body to its inputs of the next iteration, which the parent owns.
  int32_t CarryOver() {
    int32_t status = OW_OK;
    const size_t n = loop_.carried.size();
    const auto bytes = [this](const Carried& one) {
      return parent_.plan().values[one.value].bytes;
    };
    for (size_t i = 0; status == OW_OK && i < n; ++i) {
      const Carried& one = loop_.carried[i];
      if (loop_.staging[i] < 0) continue;
      status = CopyWithin(one.value, parent_.staging(loop_.staging[i])->handle(),
                          body_.tensor(one.next).data, bytes(one));
    }
    for (size_t i = 0; status == OW_OK && i < n; ++i) {
      const Carried& one = loop_.carried[i];
      const void* source = loop_.staging[i] < 0 ? body_.tensor(one.next).data
                                                : parent_.staging(loop_.staging[i])->handle();
      status = CopyWithin(one.value, parent_.tensor(one.value).data, source, bytes(one));
    }
    return status;
  }

  int32_t WriteTurns(int64_t turns) {
    const auto value = static_cast<uint32_t>(loop_.turns_taken);
    const uint32_t index = parent_.plan().values[value].device;
    Device& device = *parent_.plan().devices[index].device;
    return device.Copy(parent_.stream(index), parent_.tensor(value).data, device.is_host(), &turns,
                       true, sizeof(turns), &error_);
  }

  int32_t FailAtLimit() {
    return Fail(Concat("the loop must end within ", count_,
                       " iterations, got a condition that still holds; allow more"));
  }

  int32_t Fail(const std::string& text) {
    WriteMessage(call_.message, call_.message_bytes, text.c_str());
    return OW_ERROR;
  }

  Instance& parent_;
  const LoopDetail& loop_;
  Instance& body_;
  const ow_call& call_;
  const ow_error error_;
  int64_t count_ = -1;
  int64_t capacity_ = 0;  // capacity of growing arrays, in iterations
  bool again_ = true;
};

}  // namespace

int32_t RunLoop(const ow_call* call) { return Turns(call, &InstanceOf(call)).Run(); }

}  // namespace opwright
