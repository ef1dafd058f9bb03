// Metrics from counts accumulated over batches: auc and precision_recall. Counts are integers, so
// the order of rows does not matter.
#include "labels.h"
#include "lines.h"

#include "opwright/functors/counting.h"

using namespace opwright_cuda;
using opwright::functors::RocArea;

constexpr int kThreads = 256;
constexpr int64_t kBinsOfThread = 16;

// ---- auc ----------------------------------------------------------------------------------------

// Counts each score in one of the bins 0 to n_thresholds. Scores outside [0, 1] are reported.
template <typename T>
__global__ void count_scores(uint64_t* positives, uint64_t* negatives, const T* x, Labels labels,
                             int64_t n, int64_t n_thresholds, int32_t text) {
  using C = Compute<T>;
  for (int64_t i = GlobalIndex(); i < n; i += GridThreads()) {
    const int64_t label = labels.At(i);
    const C score = Load(x[i]);
    if (!(score >= C(0) && score <= C(1))) {
      Report(labels.fault, text, i);
    } else if (label >= 0) {
      const auto bin = static_cast<int64_t>(score * static_cast<C>(n_thresholds));
      atomicAdd(label == 1 ? &positives[bin] : &negatives[bin], uint64_t(1));
    }
  }
}

// Combines the results of all threads in order; thread 0 gets the result.
OW_INLINE RocArea JoinThreads(RocArea area) {
  OW_SHARED(RocArea, areas, kThreads);
  const int thread = static_cast<int>(threadIdx.x);
  areas[thread] = area;
  for (int width = 1; width < kThreads; width *= 2) {
    __syncthreads();
    if (thread % (2 * width) == 0) areas[thread].Join(areas[thread + width]);
  }
  return areas[thread];
}

// A block combines kThreads * kBinsOfThread adjacent bins.
__global__ void join_bins(RocArea* parts, const int64_t* positives, const int64_t* negatives,
                          int64_t n_bins) {
  RocArea area = {0, 0, 0};
  const int64_t first = GlobalIndex() * kBinsOfThread;
  for (int64_t bin = first; bin < first + kBinsOfThread && bin < n_bins; ++bin) {
    area.Join(opwright::functors::RocAreaOfBin(positives[bin], negatives[bin]));
  }
  area = JoinThreads(area);
  if (threadIdx.x == 0) parts[blockIdx.x] = area;
}

// One block.
__global__ void join_parts(float* auc, const RocArea* parts, int64_t n_parts) {
  const int64_t share = (n_parts + kThreads - 1) / kThreads, first = threadIdx.x * share;
  RocArea area = {0, 0, 0};
  for (int64_t i = first; i < first + share && i < n_parts; ++i) area.Join(parts[i]);
  area = JoinThreads(area);
  if (threadIdx.x == 0) *auc = static_cast<float>(area.Share());
}

// ---- precision_recall ---------------------------------------------------------------------------

constexpr int kRight = 0, kTooMany = 1, kNot = 2, kTooFew = 3;
constexpr int kCounts = 4;  // counts per class: tp, fp, tn, fn

// Compares the predicted class of each row with its label. Does not count true negatives (kNot).
template <typename Line, typename T>
__global__ void count_guesses_lines(uint64_t* counts, const T* x, Labels labels, Lines lines,
                                    int32_t width) {
  using C = Compute<T>;
  using Best = ArgMaxOf<C>;
  Line line(lines, width);
  Indexed<C> best = Best::Identity();
  ForEach(line, [&](int64_t i, C&, C score) { best = Best()(best, Indexed<C>{score, i}); }, x);
  best = line.Reduce(best, Best());
  if (!line.IsFirst()) return;
  const int64_t wanted = labels.At(line.line), guess = best.index;
  if (wanted < 0 || guess < 0) return;
  if (guess == wanted) {
    atomicAdd(&counts[kCounts * wanted + kRight], uint64_t(1));
  } else {
    atomicAdd(&counts[kCounts * guess + kTooMany], uint64_t(1));
    atomicAdd(&counts[kCounts * wanted + kTooFew], uint64_t(1));
  }
}

// The sums of precision, recall, F1 and counts over several classes.
struct Scores {
  double ratios[3];
  int64_t counts[kCounts];

  OW_INLINE void Add(const int64_t* of_class) {
    AddRatiosTo(of_class, ratios);
    for (int i = 0; i < kCounts; ++i) counts[i] += of_class[i];
  }
  static OW_INLINE void AddRatiosTo(const int64_t* counts, double* sums) {
    opwright::functors::AddRatios(counts[kRight], counts[kTooMany], counts[kTooFew], sums);
  }
};
struct SumOfScores {
  static OW_INLINE Scores Identity() { return {{0, 0, 0}, {0, 0, 0, 0}}; }
  OW_INLINE Scores operator()(Scores x, const Scores& y) const {
    for (int i = 0; i < 3; ++i) x.ratios[i] += y.ratios[i];
    for (int i = 0; i < kCounts; ++i) x.counts[i] += y.counts[i];
    return x;
  }
};

// Adds the counts of a batch of `rows` rows to the states, sums the scores of batch and states, and
// writes one pair of sums per block.
__global__ void add_counts(Scores* parts, int64_t* states, const int64_t* counts, int64_t n_classes,
                           int64_t rows) {
  Scores of_batch = SumOfScores::Identity(), of_all = SumOfScores::Identity();
  for (int64_t c = GlobalIndex(); c < n_classes; c += GridThreads()) {
    int64_t own[kCounts];
    for (int i = 0; i < kCounts; ++i) own[i] = counts[kCounts * c + i];
    own[kNot] = rows - own[kRight] - own[kTooMany] - own[kTooFew];
    of_batch.Add(own);
    for (int i = 0; i < kCounts; ++i) own[i] = states[kCounts * c + i] += own[i];
    of_all.Add(own);
  }
  of_batch = BlockReduce(of_batch, SumOfScores());
  of_all = BlockReduce(of_all, SumOfScores());
  if (threadIdx.x != 0) return;
  parts[2 * blockIdx.x] = of_batch;
  parts[2 * blockIdx.x + 1] = of_all;
}

// Writes the means over classes, then the values computed from total counts. Block 0 writes the
// metrics of the batch, and block 1 the metrics of all batches.
__global__ void find_metrics(float* batch, float* total, const Scores* parts, int64_t n_parts,
                             int64_t n_classes) {
  Scores sum = SumOfScores::Identity();
  for (int64_t i = threadIdx.x; i < n_parts; i += blockDim.x) {
    sum = SumOfScores()(sum, parts[2 * i + blockIdx.x]);
  }
  sum = BlockReduce(sum, SumOfScores());
  if (threadIdx.x != 0) return;
  double at_once[3] = {0, 0, 0};
  Scores::AddRatiosTo(sum.counts, at_once);
  float* const out = blockIdx.x == 0 ? batch : total;
  const double divisor = static_cast<double>(n_classes > 0 ? n_classes : 1);
  for (int i = 0; i < 3; ++i) {
    out[i] = static_cast<float>(sum.ratios[i] / divisor);
    out[3 + i] = static_cast<float>(at_once[i]);
  }
}
