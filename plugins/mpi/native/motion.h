// What a collective does with tensors: how the sources of the processes become their targets.
#ifndef OPWRIGHT_MPI_MOTION_H_
#define OPWRIGHT_MPI_MOTION_H_

#include <cstdint>

namespace opwright_mpi {

// Sources and targets are lanes of equal length, one or one for each process. kReduce joins the
// lanes of all for everybody, kScatter joins lane r of all for process r, kGather gives everybody
// the lanes of all, kExchange gives process r lane r of all.
enum class Motion { kReduce, kScatter, kGather, kExchange };

inline bool JoinsLanes(Motion motion) {
  return motion == Motion::kReduce || motion == Motion::kScatter;
}

inline int64_t SourceLanes(Motion motion, int64_t n_processes) {
  return motion == Motion::kScatter || motion == Motion::kExchange ? n_processes : 1;
}

inline int64_t TargetLanes(Motion motion, int64_t n_processes) {
  return motion == Motion::kGather || motion == Motion::kExchange ? n_processes : 1;
}

}  // namespace opwright_mpi

#endif  // OPWRIGHT_MPI_MOTION_H_
