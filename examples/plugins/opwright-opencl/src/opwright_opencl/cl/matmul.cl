// out = activation(x @ y + bias) for stacks of matrices. A work-group computes TILE by TILE
// elements, and each work-item computes ROWS by WIDTH of these. It advances along the depth in
// tiles that it copies to local memory, so an element is read from global memory once for TILE
// products. Sums are in registers, so ROWS + WIDTH reads of local memory suffice for ROWS * WIDTH
// products. Drivers for CPUs compile the vectors to SIMD instructions.
#define PASTE(A, B) A##B
#define VECTOR_NAME(T, N) PASTE(T, N)
#define VECTOR VECTOR_NAME(T, WIDTH)
#define LOAD VECTOR_NAME(vload, WIDTH)
#define STORE VECTOR_NAME(vstore, WIDTH)
#define PITCH (TILE + WIDTH)  // puts columns of a tile into different banks

// A tile of a matrix whose elements are at row * row_stride + column * column_stride, with zeros
// beyond its ends. Adjacent work-items read adjacent addresses, for both layouts of the matrix.
void load_tile(__local T* tile, __global const T* matrix, const size_t first_row,
               const size_t first_column, const size_t rows, const size_t columns,
               const size_t row_stride, const size_t column_stride) {
  const int items = get_local_size(0) * get_local_size(1);
  const bool by_row = column_stride == 1;
  for (int e = get_local_id(1) * get_local_size(0) + get_local_id(0); e < TILE * TILE; e += items) {
    const int slow = e / TILE, fast = e % TILE;
    const int i = by_row ? slow : fast, j = by_row ? fast : slow;
    const size_t row = first_row + i, column = first_column + j;
    const bool is_inside = row < rows && column < columns;
    tile[i * PITCH + j] =
        is_inside ? matrix[row * row_stride + column * column_stride] : (T)0;
  }
}

T activate(const T x, const int activation) {
  switch (activation) {
    case 1: return relu_of(x);
    case 2: return sigmoid_of(x);
    case 3: return tanh_of(x);
    default: return x;
  }
}

// `bias` can be null. Each matrix has strides for stack, row and column.
__kernel void matmul(const ulong rows, const ulong columns, const ulong depth,
                     __global const T* xs, const ulong4 x_strides, __global const T* ys,
                     const ulong4 y_strides, __global const T* bias, __global T* outs,
                     const int activation) {
  __local T x_tile[TILE * PITCH], y_tile[TILE * PITCH];
  const size_t stack = get_group_id(2);
  const size_t first_row = get_group_id(1) * TILE, first_column = get_group_id(0) * TILE;
  const int my_row = get_local_id(1) * ROWS, my_column = get_local_id(0) * WIDTH;
  VECTOR sums[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) sums[r] = 0;
  for (size_t k = 0; k < depth; k += TILE) {
    load_tile(x_tile, xs + stack * x_strides.x, first_row, k, rows, depth, x_strides.y,
              x_strides.z);
    load_tile(y_tile, ys + stack * y_strides.x, k, first_column, depth, columns, y_strides.y,
              y_strides.z);
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 4
    for (int inner = 0; inner < TILE; ++inner) {
      const VECTOR y = LOAD(0, y_tile + inner * PITCH + my_column);
#pragma unroll
      for (int r = 0; r < ROWS; ++r) sums[r] += x_tile[(my_row + r) * PITCH + inner] * y;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (int r = 0; r < ROWS; ++r) {
    const size_t row = first_row + my_row + r;
    T sum[WIDTH];
    STORE(sums[r], 0, sum);
    for (int c = 0; c < WIDTH; ++c) {
      const size_t column = first_column + my_column + c;
      if (row >= rows || column >= columns) continue;
      const T offset = bias ? bias[column] : (T)0;
      outs[(stack * rows + row) * columns + column] = activate(sum[c] + offset, activation);
    }
  }
}
