#include "python/call/written.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "python/call/intake.h"
#include "runtime/status.h"

namespace opwright {

namespace {

// A range of memory that a plan reads, or a range of the caller's memory that the plan writes.
struct Span {
  const void* begin;
  uint64_t bytes;
  const External* external;  // null for a fetch
  size_t fetch;
  bool is_written;

  bool Overlaps(const Span& other) const {
    const auto first = reinterpret_cast<uintptr_t>(begin);
    const auto second = reinterpret_cast<uintptr_t>(other.begin);
    return bytes != 0 && other.bytes != 0 && first < second + other.bytes && second < first + bytes;
  }
  std::string Name() const {
    if (external == nullptr) return Concat("out[", fetch, "]");
    return Concat(external->role == Role::kFeed ? "feed '" : "variable '", external->name, "'");
  }
};

// Rejects overlapping spans, since a step may write memory before another step has read it.
void CheckSpans(const std::vector<Span>& spans) {
  for (const Span& span : spans) {
    for (const Span& other : spans) {
      if (!span.is_written || &span == &other || !span.Overlaps(other)) continue;
      Throw(ErrorKind::kFeed, span.Name(), ": a written array must have its own memory, got an ",
            "array that overlaps the array of ", other.Name(), "; pass another array");
    }
  }
}

// Whether no two elements of a strided array overlap, by a sufficient condition: each axis steps
// beyond the extent of the axes with smaller steps.
bool IsInjective(PyArrayObject* array) {
  std::vector<std::pair<int64_t, int64_t>> axes;  // step, length
  for (int i = 0; i < PyArray_NDIM(array); ++i) {
    if (PyArray_DIM(array, i) == 0) return true;
    if (PyArray_DIM(array, i) > 1) {
      axes.emplace_back(std::abs(PyArray_STRIDE(array, i)), PyArray_DIM(array, i));
    }
  }
  std::sort(axes.begin(), axes.end());
  int64_t reach = PyArray_ITEMSIZE(array);
  for (const auto& [step, length] : axes) {
    if (step < reach) return false;
    reach += step * (length - 1);
  }
  return true;
}

void CheckWritable(const Span& span, PyObject* array) {
  if (IsWritable(array)) return;
  Throw(ErrorKind::kFeed, span.Name(), ": it is written, got a read-only array; pass a copy of it");
}

// Checks the caller's array or tensor for a plan's fetch, and returns its memory.
Span CheckOut(const Plan& plan, Instance* instance, size_t fetch, PyObject* out) {
  const Tensor* tensor = FeedTensor(out);
  Span span{nullptr, 0, nullptr, fetch, true};
  CheckWritable(span, out);
  if (tensor != nullptr) {
    span.begin = tensor->data();
    span.bytes = tensor->bytes();
  } else if (IsReady(out)) {  // fetches are copied to other arrays after the last step
    span.begin = PyArray_DATA(AsArray(out));
    span.bytes = static_cast<uint64_t>(PyArray_NBYTES(AsArray(out)));
  } else if (PyArray_Check(out) && !IsInjective(AsArray(out))) {
    Throw(ErrorKind::kFeed, span.Name(), ": each element must have its own memory, got an array ",
          "whose strides overlap; pass a copy of it");
  }
  if (plan.has_continuation) return span;  // the last plan of the chain has the fetches
  const uint32_t value = plan.fetches[fetch];
  const Value& info = plan.values[value];
  const std::shared_ptr<Device>& device = plan.devices[info.device].device;
  if (!FitsMeta(out, info, instance->dims(value))) {
    Throw(ErrorKind::kFeed, span.Name(), ": must match the fetch, ",
          DescribeMisfit(out, info, instance->dims(value)), "; pass such an array");
  }
  if (tensor != nullptr && tensor->device() != device) {
    Throw(ErrorKind::kFeed, span.Name(), ": must be on ", device->name(), ", got an array on ",
          tensor->device()->name(), "; pass one on the host");
  }
  return span;
}

}  // namespace

void CheckWritten(const RunRequest& request, Instance* instance) {
  const Plan& plan = instance->plan();
  const size_t n_out = request.out == nullptr ? 0 : request.out->size();
  if (request.out != nullptr && !plan.has_continuation && n_out != plan.fetches.size()) {
    Throw(ErrorKind::kFeed, "out: must have an array, or None, for each of the fetches, which are ",
          plan.fetches.size(), ", got ", n_out);
  }
  std::vector<Span> spans;
  spans.reserve(plan.externals.size() + n_out);
  for (const External& external : plan.externals) {
    const uint32_t value = external.values[0];
    const uint64_t bytes = external.role == Role::kFetch ? 0 : plan.values[value].bytes;
    spans.push_back({instance->tensor(value).data, bytes, &external, 0, false});
  }
  for (const uint32_t place : plan.written_feeds) {
    Span& span = spans[plan.feeds[place]];
    span.is_written = true;
    CheckWritable(span, request.feeds[request.order == nullptr ? place : request.order[place]]);
  }
  for (size_t i = 0; i < n_out; ++i) {
    PyObject* out = (*request.out)[i].ptr();
    if (out != nullptr) spans.push_back(CheckOut(plan, instance, i, out));
  }
  CheckSpans(spans);
}

}  // namespace opwright
