// The constants and functions of the standard MPI ABI (MPI 5.0, chapter 20) that are used here.
// Functions are loaded by name.
#ifndef OPWRIGHT_MPI_MPI_ABI_H_
#define OPWRIGHT_MPI_MPI_ABI_H_

#include <cstdint>

namespace opwright_mpi {

using Comm = struct OpaqueComm*;
using CommGroup = struct OpaqueGroup*;
using Datatype = struct OpaqueDatatype*;
using Errhandler = struct OpaqueErrhandler*;
using Request = struct OpaqueRequest*;
using Count = int64_t;
using Address = intptr_t;

struct MpiStatus {
  int source;
  int tag;
  int error;
  int internal[5];
};

// Handles are pointers with values fixed by the ABI.
template <typename Handle>
inline Handle FixedHandle(uintptr_t value) {
  return reinterpret_cast<Handle>(value);  // NOLINT(performance-no-int-to-ptr)
}
inline Comm CommWorld() { return FixedHandle<Comm>(0x101); }
inline Comm CommNull() { return FixedHandle<Comm>(0x100); }
inline Request RequestNull() { return FixedHandle<Request>(0x180); }
inline Datatype TypeByte() { return FixedHandle<Datatype>(0x247); }
inline Datatype TypeInt64() { return FixedHandle<Datatype>(0x258); }
inline Errhandler ErrorsReturn() { return FixedHandle<Errhandler>(0x143); }

constexpr int kSuccess = 0;
constexpr int kAnySource = -1;
constexpr int kAnyTag = -2;
constexpr int kThreadSerialized = 2048;
constexpr int kThreadMultiple = 4096;
constexpr int kMaxErrorString = 512;
constexpr int kMaxLibraryVersion = 8192;

// The name and parameters of each function; all functions return int.
#define OPWRIGHT_MPI_FUNCTIONS(F)                                                            \
  F(Abi_get_version, (int*, int*))                                                           \
  F(Abort, (Comm, int))                                                                      \
  F(Comm_create_group, (Comm, CommGroup, int, Comm*))                                        \
  F(Comm_dup, (Comm, Comm*))                                                                 \
  F(Comm_group, (Comm, CommGroup*))                                                          \
  F(Comm_rank, (Comm, int*))                                                                 \
  F(Comm_set_errhandler, (Comm, Errhandler))                                                 \
  F(Comm_size, (Comm, int*))                                                                 \
  F(Error_string, (int, char*, int*))                                                        \
  F(Finalize, ())                                                                            \
  F(Finalized, (int*))                                                                       \
  F(Get_library_version, (char*, int*))                                                      \
  F(Group_free, (CommGroup*))                                                                \
  F(Group_incl, (CommGroup, int, const int*, CommGroup*))                                    \
  F(Iallgather_c, (const void*, Count, Datatype, void*, Count, Datatype, Comm, Request*))    \
  F(Ialltoall_c, (const void*, Count, Datatype, void*, Count, Datatype, Comm, Request*))     \
  F(Ialltoallv_c, (const void*, const Count*, const Address*, Datatype, void*, const Count*, \
                   const Address*, Datatype, Comm, Request*))                                \
  F(Ibarrier, (Comm, Request*))                                                              \
  F(Ibcast_c, (void*, Count, Datatype, int, Comm, Request*))                                 \
  F(Init_thread, (int*, char***, int, int*))                                                 \
  F(Initialized, (int*))                                                                     \
  F(Iprobe, (int, int, Comm, int*, MpiStatus*))                                              \
  F(Isend, (const void*, int, Datatype, int, int, Comm, Request*))                           \
  F(Query_thread, (int*))                                                                    \
  F(Recv, (void*, int, Datatype, int, int, Comm, MpiStatus*))                                \
  F(Test, (Request*, int*, MpiStatus*))

}  // namespace opwright_mpi

#endif  // OPWRIGHT_MPI_MPI_ABI_H_
