// Arguments of kernels: tensors with their data in run, without it in prepare.
#ifndef OPWRIGHT_SDK_KERNEL_CONTEXT_HPP_
#define OPWRIGHT_SDK_KERNEL_CONTEXT_HPP_

#include <cstdint>
#include <limits>

#include "opwright/abi.h"
#include "opwright/sdk/attributes.hpp"
#include "opwright/sdk/dtypes.hpp"
#include "opwright/sdk/shape.hpp"
#include "opwright/sdk/status.hpp"

namespace opwright {

// A tensor that a kernel reads. Nothing here allocates.
class InputTensor {
 public:
  explicit InputTensor(const DLTensor* tensor) : tensor_(tensor) {}

  int32_t rank() const { return tensor_->ndim; }
  const int64_t* dims() const { return tensor_->shape; }
  const int64_t* strides() const { return tensor_->strides; }  // in elements
  DLDataType dtype() const { return tensor_->dtype; }
  const DLTensor* dlpack() const { return tensor_; }
  Shape shape() const { return Shape(tensor_->shape, tensor_->ndim); }

  // One dimension; a negative axis counts from the end.
  int64_t dim(int32_t axis) const { return tensor_->shape[detail::AxisFromFront(axis, rank())]; }

  int64_t numel() const {
    int64_t count = 1;
    for (int32_t axis = 0; axis < tensor_->ndim; ++axis) count *= tensor_->shape[axis];
    return count;
  }

  // The elements; NULL if there are none, and for a shape-only slot.
  template <typename T>
  const T* data() const {
    return Pointer<T>();
  }
  // The elements, for a kernel of several dtypes; on a device, the handle.
  const void* raw() const { return Bytes(); }

 protected:
  char* Bytes() const {
    return tensor_->data == nullptr ? nullptr
                                    : static_cast<char*>(tensor_->data) + tensor_->byte_offset;
  }

  template <typename T>
  T* Pointer() const {
    if (!SameDtype(tensor_->dtype, DtypeOf<T>())) ReadAs(tensor_->dtype, DtypeOf<T>());
    return static_cast<T*>(static_cast<void*>(Bytes()));
  }

 private:
  [[noreturn]] OPWRIGHT_COLD static void ReadAs(DLDataType dtype, DLDataType other) {
    throw Exception("a tensor of ", DtypeName(dtype), " was read as ", DtypeName(other));
  }

  const DLTensor* tensor_;
};

// A tensor that a kernel writes. It is allocated already, unless its shape depends on values.
class OutputTensor : public InputTensor {
 public:
  using InputTensor::InputTensor;

  template <typename T>
  T* data() const {
    return Pointer<T>();
  }
  void* raw() const { return Bytes(); }
};

namespace detail {

// Finds the tensors of slots. Slots are counted in the order of the description, each kind from 0.
class Arguments {
 public:
  Arguments(DLTensor* const* args, const uint32_t* slot_begin, uint32_t n_slots, uint32_t n_inputs)
      : args_(args), slot_begin_(slot_begin), n_slots_(n_slots), n_inputs_(n_inputs) {}

  uint32_t n_inputs() const { return n_inputs_; }
  uint32_t n_outputs() const { return n_slots_ - n_inputs_; }

  uint32_t InputCount(uint32_t slot) const {
    if (slot >= n_inputs_) Missing("input", slot, n_inputs_);
    return slot_begin_[slot + 1] - slot_begin_[slot];
  }
  uint32_t OutputCount(uint32_t slot) const {
    if (slot >= n_outputs()) Missing("output", slot, n_outputs());
    return slot_begin_[n_inputs_ + slot + 1] - slot_begin_[n_inputs_ + slot];
  }

  uint32_t InputIndex(uint32_t slot, uint32_t index) const {
    if (index >= InputCount(slot)) Absent("input", slot, index);
    return slot_begin_[slot] + index;
  }
  uint32_t OutputIndex(uint32_t slot, uint32_t index) const {
    if (index >= OutputCount(slot)) Absent("output", slot, index);
    return slot_begin_[n_inputs_ + slot] + index;
  }

  const DLTensor* operator[](uint32_t arg) const { return args_[arg]; }

 private:
  [[noreturn]] OPWRIGHT_COLD static void Missing(const char* kind, uint32_t slot, uint32_t count) {
    throw Exception("there are ", count, " ", kind, " slots, got slot ", slot);
  }
  [[noreturn]] OPWRIGHT_COLD static void Absent(const char* kind, uint32_t slot, uint32_t index) {
    throw Exception(kind, " slot ", slot, " has no variable ", index, "; ask has_", kind,
                    " before");
  }

  DLTensor* const* args_;
  const uint32_t* slot_begin_;
  uint32_t n_slots_;
  uint32_t n_inputs_;
};

}  // namespace detail

// The context of Prepare: shapes, dtypes and requests. All threads share the result of Prepare.
class PrepareContext {
 public:
  explicit PrepareContext(ow_prepare* prepare)
      : prepare_(prepare),
        args_(prepare->args, prepare->slot_begin, prepare->n_slots, prepare->n_inputs) {}

  const char* op_type() const { return prepare_->op_type; }
  int32_t n_threads() const { return prepare_->n_threads; }  // the same in run
  // Whether n_threads() is fixed so that results are bitwise identical on every machine. If so, the
  // kernel must not use the thread count of a library that it calls.
  bool deterministic() const {
    return OW_HAS(prepare_, flags) && (prepare_->flags & OW_PREPARE_DETERMINISTIC) != 0;
  }
  // The device, an object of the registered class; NULL for the host.
  template <typename D = void>
  D* device_state() const {
    return static_cast<D*>(prepare_->device_state);
  }
  const ow_prepare* frame() const { return prepare_; }

  uint32_t input_count(uint32_t slot) const { return args_.InputCount(slot); }
  bool has_input(uint32_t slot) const { return input_count(slot) > 0; }
  Meta input(uint32_t slot, uint32_t index = 0) const {
    return Meta(args_[args_.InputIndex(slot, index)]);
  }
  uint32_t output_count(uint32_t slot) const { return args_.OutputCount(slot); }
  bool has_output(uint32_t slot) const { return output_count(slot) > 0; }
  Meta output(uint32_t slot, uint32_t index = 0) const {
    return Meta(args_[args_.OutputIndex(slot, index)]);
  }

  // Whether the output, which only a gradient would need, is unread and need not be written.
  bool unread(uint32_t slot, uint32_t index = 0) const {
    return (prepare_->arg_flags[args_.OutputIndex(slot, index)] & OW_ARG_UNREAD) != 0;
  }

  // Scratch memory for run, aligned to 64 bytes; its contents are not kept between runs.
  void SetWorkspace(uint64_t bytes) { prepare_->workspace_bytes = bytes; }
  // The estimated duration of one run with n_threads() threads.
  void SetEstimate(uint64_t nanoseconds) { prepare_->estimate_ns = nanoseconds; }
  // Prevents capture of this operator, although the kernel is registered as capturable.
  void ForbidCapture() { prepare_->out_flags |= OW_PREPARED_NOT_CAPTURABLE; }

  // Whether the input is a persistable that the plan does not write, which allows Pack.
  bool packable(uint32_t slot, uint32_t index = 0) const {
    return (prepare_->arg_flags[args_.InputIndex(slot, index)] & OW_ARG_PACKABLE) != 0 &&
           prepare_->n_packs < prepare_->pack_capacity;
  }
  // Replaces the input in run by the copy that the kernel's Pack writes.
  Status Pack(uint32_t slot, uint64_t bytes, uint32_t alignment = 64) {
    OPWRIGHT_ENFORCE(packable(slot), "input slot ", slot, " must be packable to be packed");
    prepare_->packs[prepare_->n_packs++] = ow_pack{args_.InputIndex(slot, 0), alignment, bytes};
    return Status::Ok();
  }

 private:
  ow_prepare* prepare_;
  detail::Arguments args_;
};

// The context of Run and Bind: arguments with data pointers, which Bind must not dereference.
class RunContext {
 public:
  RunContext(const ow_call* call, uint32_t n_inputs)
      : call_(call), args_(call->args, call->slot_begin, call->n_slots, n_inputs) {}

  int32_t n_threads() const { return call_->n_threads; }
  // The stream of the device; NULL without streams.
  template <typename Stream = void>
  Stream* stream() const {
    return static_cast<Stream*>(call_->stream);
  }
  const ow_call* frame() const { return call_; }

  uint32_t input_count(uint32_t slot) const { return args_.InputCount(slot); }
  bool has_input(uint32_t slot) const { return input_count(slot) > 0; }
  InputTensor input(uint32_t slot, uint32_t index = 0) const {
    return InputTensor(args_[args_.InputIndex(slot, index)]);
  }
  uint32_t output_count(uint32_t slot) const { return args_.OutputCount(slot); }
  bool has_output(uint32_t slot) const { return output_count(slot) > 0; }
  OutputTensor output(uint32_t slot, uint32_t index = 0) const {
    return OutputTensor(args_[args_.OutputIndex(slot, index)]);
  }

  uint64_t workspace_bytes() const { return call_->workspace_bytes; }
  template <typename T = void>
  T* workspace() const {
    return static_cast<T*>(call_->workspace);
  }

  // A kernel with options.blocks calls this about every millisecond that it waits. If the status is
  // not OK, as after Ctrl-C, Run must return it. A host older than 1.1 never ends a wait.
  Status Poll() const {
    if (!OW_HAS(call_->host, poll)) return Status::Ok();
    return Status(call_->host->poll(call_), "");
  }

  // Sets the shape of an output of an operator with DynamicOutput and allocates it.
  Status Resize(uint32_t slot, const Shape& shape, uint32_t index = 0) const {
    const int32_t code = call_->host->resize(call_, args_.OutputIndex(slot, index), shape.rank(),
                                             shape.dims().data());
    if (code == OW_OK) return Status::Ok();
    return Status(code, call_->message != nullptr ? call_->message : "");
  }

 private:
  const ow_call* call_;
  detail::Arguments args_;
};

}  // namespace opwright

#endif  // OPWRIGHT_SDK_KERNEL_CONTEXT_HPP_
