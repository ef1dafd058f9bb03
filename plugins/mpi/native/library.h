// The MPI library of this process. The library is loaded at run time and can be any library with
// the standard ABI.
#ifndef OPWRIGHT_MPI_LIBRARY_H_
#define OPWRIGHT_MPI_LIBRARY_H_

#include <string>

#include "mpi_abi.h"

namespace opwright_mpi {

// The functions of the library; their names omit "MPI_".
struct Library {
#define OPWRIGHT_MPI_MEMBER(name, parameters) int(*name) parameters = nullptr;
  OPWRIGHT_MPI_FUNCTIONS(OPWRIGHT_MPI_MEMBER)
#undef OPWRIGHT_MPI_MEMBER
};

// Returns the function table; its entries are null before Connect is called.
const Library& Mpi();

// Opens the library at `path` and connects to the other processes, unless this process has already
// called MPI_Init. Returns an error message or an empty string. Called once per process.
std::string Connect(const std::string& path);

// Returns the reason if collectives cannot start (not connected, finalized, or in a forked child),
// otherwise nullptr.
const char* FindUnusable();

// Returns the message of an MPI error code.
std::string ErrorText(int code);

// Returns the name and version of the library.
std::string Describe();

}  // namespace opwright_mpi

#endif  // OPWRIGHT_MPI_LIBRARY_H_
