// The MPI library of this process, which may be any library with the standard ABI, loaded at run
// time.
#ifndef OPWRIGHT_MPI_LIBRARY_H_
#define OPWRIGHT_MPI_LIBRARY_H_

#include <string>

#include "mpi_abi.h"

namespace opwright_mpi {

// Its functions, without "MPI_".
struct Library {
#define OPWRIGHT_MPI_MEMBER(name, parameters) int(*name) parameters = nullptr;
  OPWRIGHT_MPI_FUNCTIONS(OPWRIGHT_MPI_MEMBER)
#undef OPWRIGHT_MPI_MEMBER
};

// The functions; all null before Connect.
const Library& Mpi();

// Opens the library at `path` and connects to the other processes, unless this process has called
// MPI_Init itself. Returns the error, or an empty string. Called once per process.
std::string Connect(const std::string& path);

// Returns the reason why collectives cannot start (not connected, finalized, or in a forked child),
// or nullptr.
const char* FindUnusable();

// Returns the message of an MPI error code.
std::string ErrorText(int code);

// Returns the library's name and version.
std::string Describe();

}  // namespace opwright_mpi

#endif  // OPWRIGHT_MPI_LIBRARY_H_
