// out = activation(x @ y + bias) for stacks of matrices. A work-group of TILE by TILE / ROWS items
// makes TILE by TILE elements: it goes along k in tiles that it copies to local memory, so that an
// element is read from global memory once for TILE products, and each item keeps ROWS sums, so that
// one read of ys serves ROWS of them.
#define STEP (TILE / ROWS)

// A tile of a matrix whose elements lie at row * row_stride + column * column_stride, with zeros
// beyond its ends. Neighbouring items read neighbouring addresses, whichever way the matrix lies;
// the odd width of the tile keeps the columns of local memory in banks of their own.
void load_tile(__local T tile[TILE][TILE + 1], __global const T* matrix, const size_t first_row,
               const size_t first_column, const size_t rows, const size_t columns,
               const size_t row_stride, const size_t column_stride) {
  const size_t fast = get_local_id(0);
  for (int r = 0; r < ROWS; ++r) {
    const size_t slow = get_local_id(1) + r * STEP;
    const size_t i = column_stride == 1 ? slow : fast, j = column_stride == 1 ? fast : slow;
    const size_t row = first_row + i, column = first_column + j;
    tile[i][j] = row < rows && column < columns
                     ? matrix[row * row_stride + column * column_stride]
                     : (T)0;
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

// `bias` may be NULL. `x_strides` are those of stack, row and column.
__kernel void matmul(const ulong rows, const ulong columns, const ulong depth,
                     __global const T* xs, const ulong4 x_strides, __global const T* ys,
                     const ulong4 y_strides, __global const T* bias, __global T* outs,
                     const int activation) {
  __local T x_tile[TILE][TILE + 1], y_tile[TILE][TILE + 1];
  const size_t stack = get_group_id(2);
  const size_t first_row = get_group_id(1) * TILE, first_column = get_group_id(0) * TILE;
  const int me = get_local_id(0), mine = get_local_id(1);
  T sums[ROWS];
  for (int r = 0; r < ROWS; ++r) sums[r] = 0;
  for (size_t k = 0; k < depth; k += TILE) {
    load_tile(x_tile, xs + stack * x_strides.x, first_row, k, rows, depth, x_strides.y,
              x_strides.z);
    load_tile(y_tile, ys + stack * y_strides.x, k, first_column, depth, columns, y_strides.y,
              y_strides.z);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int inner = 0; inner < TILE; ++inner) {
      const T y = y_tile[inner][me];
      for (int r = 0; r < ROWS; ++r) sums[r] += x_tile[mine + r * STEP][inner] * y;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  const size_t column = first_column + me;
  if (column >= columns) return;
  const T offset = bias ? bias[column] : (T)0;
  for (int r = 0; r < ROWS; ++r) {
    const size_t row = first_row + mine + r * STEP;
    if (row < rows) {
      outs[(stack * rows + row) * columns + column] = activate(sums[r] + offset, activation);
    }
  }
}
