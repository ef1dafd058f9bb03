// How collectives move data from each process's source to each process's target.
#ifndef OPWRIGHT_MPI_MOTION_H_
#define OPWRIGHT_MPI_MOTION_H_

#include <cstdint>

namespace opwright_mpi {

// Sources and targets are lanes of equal length, one in total or one per process. kReduce reduces
// the lanes of all processes, and every process gets the result. kScatter reduces lane r of all
// processes for process r. kGather sends the lanes of all processes to all processes. kExchange
// sends lane r of all processes to process r.
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
