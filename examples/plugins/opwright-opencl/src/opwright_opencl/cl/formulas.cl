// Formulas that several kernels share. T, the element type, is defined when the program is built;
// everything is compiled once for each T.
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

// NaN is not below 0, so it is returned, as by NumPy's maximum.
T relu_of(const T x) { return x <= 0 ? (T)0 : x; }

// For very negative x, exp(-x) is infinite and the quotient is 0, which is correct.
T sigmoid_of(const T x) { return (T)1 / ((T)1 + exp(-x)); }

T tanh_of(const T x) { return tanh(x); }

// The offset in an array for element `index` of an output with up to four dimensions. A stride of 0
// broadcasts the array along that dimension. Indices have 32 bits, because 64-bit divisions take
// several times as long.
uint place_of(uint index, const uint4 shape, const uint4 strides) {
  uint place = index % shape.w * strides.w;
  index /= shape.w;
  place += index % shape.z * strides.z;
  index /= shape.z;
  return place + index % shape.y * strides.y + index / shape.y * strides.x;
}

// The sum or maximum of one value from each work-item, in a fixed order; every work-item gets the
// result. The size of the work-group must be a power of two. `scratch` has one T per work-item.
T sum_of_group(const T value, __local T* scratch) {
  const size_t me = get_local_id(0);
  scratch[me] = value;
  for (size_t count = get_local_size(0) / 2; count > 0; count /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me < count) scratch[me] += scratch[me + count];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const T sum = scratch[0];
  barrier(CLK_LOCAL_MEM_FENCE);  // wait before the memory is overwritten
  return sum;
}

T largest_of_group(const T value, __local T* scratch) {
  const size_t me = get_local_id(0);
  scratch[me] = value;
  for (size_t count = get_local_size(0) / 2; count > 0; count /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me < count) scratch[me] = fmax(scratch[me], scratch[me + count]);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const T largest = scratch[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return largest;
}
