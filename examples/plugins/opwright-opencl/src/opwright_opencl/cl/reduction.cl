// Sums over the middle axis of [outer, length, inner]. A work-group handles `columns` adjacent
// positions of inner, so its work-items read adjacent elements, and advances along a part of the
// length by local_size / columns at a time. A second launch adds the `parts` results of each sum.
__kernel void sum_lines(__global const T* xs, __global T* outs, const ulong length,
                        const ulong inner, const ulong columns, const ulong parts,
                        const ulong chunk, const T divisor, __local T* scratch) {
  const size_t me = get_local_id(0), down = get_local_size(0) / columns;
  const size_t blocks = (inner + columns - 1) / columns;
  size_t group = get_group_id(0);
  const size_t column = group % blocks * columns + me % columns;
  group /= blocks;
  const size_t part = group % parts, outer = group / parts;
  const size_t end = min((ulong)((part + 1) * chunk), length);
  T sum = 0;
  if (column < inner) {
    for (size_t row = part * chunk + me / columns; row < end; row += down) {
      sum += xs[(outer * length + row) * inner + column];
    }
  }
  scratch[me] = sum;
  for (size_t count = down / 2; count > 0; count /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me < count * columns) scratch[me] += scratch[me + count * columns];
  }
  if (me < columns && column < inner) {
    outs[(outer * parts + part) * inner + column] = scratch[me] / divisor;
  }
}
