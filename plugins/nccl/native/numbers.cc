#include "numbers.h"

#include <cstring>

namespace opwright_nccl {

using opwright::Status;

namespace {

Address AddressOf(const void* pointer) { return reinterpret_cast<Address>(pointer); }

std::string Instance(const char* kernel, std::initializer_list<std::string> arguments) {
  std::string text = kernel;
  char before = '<';
  for (const std::string& argument : arguments) {
    text += before + argument;
    before = ',';
  }
  return text + '>';
}

const char* WholeTypeOf(int64_t item) {
  if (item == 2) return "uint16_t";
  return item == 4 ? "uint32_t" : "uint64_t";
}

}  // namespace

const char* CTypeOf(DLDataType dtype) {
  if (dtype.code == kDLBfloat) return "BFloat16";
  if (dtype.code == kDLInt) return dtype.bits == 32 ? "int32_t" : "int64_t";
  if (dtype.bits == 16) return "Half";
  return dtype.bits == 32 ? "float" : "double";
}

Layout Layout::Of(const opwright::Shape& shape, int64_t axis, int64_t n_parts) {
  int64_t outer = 1;
  int64_t run = 1;
  const int64_t at = axis < 0 ? axis + shape.rank() : axis;
  for (int64_t i = 0; i < shape.rank(); ++i) {
    const int64_t dim = shape.dims()[static_cast<size_t>(i)];
    if (i < at) outer *= dim;
    if (i == at) run *= dim / n_parts;
    if (i > at) run *= dim;
  }
  return {outer, n_parts, run};
}

Layout Layout::Shards(int64_t n, int64_t n_parts, int64_t length, int64_t stride) {
  Layout layout{1, n_parts, length};
  layout.n = n;
  layout.stride = stride;
  return layout;
}

Status Numbers::Find(void* device, DLDataType dtype, const std::string& reduce, bool is_weighted) {
  const bool is_float = dtype.code != kDLInt;
  const bool is_wide = dtype.bits == 64;
  const bool is_order = reduce == "max" || reduce == "min";
  const bool has_keys = is_order && is_float;
  std::string travels = is_wide ? "int64_t" : "int32_t";
  type_ = is_wide ? kTypeInt64 : kTypeInt32;
  if (is_float && !has_keys) {
    travels = is_wide ? "double" : "float";
    type_ = is_wide ? kTypeFloat64 : kTypeFloat32;
  }
  item_ = is_wide ? 8 : 4;
  operation_ = !is_order ? kSum : reduce == "max" ? kMax : kMin;
  const std::string key = reduce == "max" ? "Greatest" : "Least";
  const std::string packed = has_keys ? key : is_weighted ? "Weighted" : "Plain";
  const std::string unpacked = has_keys ? key : reduce == "mean" ? "Weighted" : "Plain";
  const std::string ctype = CTypeOf(dtype);
  OPWRIGHT_RETURN_IF_ERROR(FindKernel(device, Instance("pack", {ctype, travels, packed}), &pack_));
  OPWRIGHT_RETURN_IF_ERROR(
      FindKernel(device, Instance("unpack", {travels, ctype, unpacked}), &unpack_));
  return is_weighted ? FindKernel(device, Instance("put", {travels}), &put_) : Status::Ok();
}

// Converts a number to the transferred type and returns its bytes, padded to 64 bits.
uint64_t Numbers::BitsOf(double number) const {
  uint64_t bits = 0;
  const auto narrow = static_cast<float>(number);
  const auto whole = static_cast<int64_t>(number);
  if (type_ == kTypeFloat32) {
    std::memcpy(&bits, &narrow, sizeof(narrow));
  } else if (type_ == kTypeFloat64) {
    std::memcpy(&bits, &number, sizeof(number));
  } else {
    std::memcpy(&bits, &whole, sizeof(whole));
  }
  return bits;
}

Status Numbers::Pack(Stream stream, const void* x, Address to, const Layout& layout,
                     double weight) const {
  return Launch(pack_, BlocksFor(layout.part() * layout.parts), kThreads, stream, AddressOf(x), to,
                Parts{layout}, BitsOf(weight));
}

Status Numbers::Put(Stream stream, Address to, double number, int64_t n_places,
                    int64_t stride) const {
  return Launch(put_, static_cast<unsigned>(n_places), unsigned{kShardLine}, stream, to,
                BitsOf(number), stride);
}

Status Numbers::Unpack(Stream stream, Address from, void* out, const Layout& layout, Address sum,
                       double divisor) const {
  return Launch(unpack_, BlocksFor(layout.part() * layout.parts), kThreads, stream, from,
                AddressOf(out), Parts{layout}, sum, BitsOf(divisor));
}

Status Mover::Find(void* device, int64_t item) {
  OPWRIGHT_RETURN_IF_ERROR(FindKernel(device, Instance("divide", {WholeTypeOf(item)}), &divide_));
  return FindKernel(device, Instance("join", {WholeTypeOf(item)}), &join_);
}

Status Mover::Divide(Stream stream, const void* x, void* parts, const Layout& layout) const {
  return Launch(divide_, BlocksFor(layout.part() * layout.parts), kThreads, stream, AddressOf(x),
                AddressOf(parts), Parts{layout});
}

Status Mover::Join(Stream stream, const void* parts, void* x, const Layout& layout) const {
  return Launch(join_, BlocksFor(layout.part() * layout.parts), kThreads, stream, AddressOf(parts),
                AddressOf(x), Parts{layout});
}

}  // namespace opwright_nccl
