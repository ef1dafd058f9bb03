// The MPI library of this process: opened at run time, whichever has the standard interface.
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

// Opens the library at `path` and joins the other processes, unless the process has done that
// itself. Returns what is wrong, or an empty text. Once in a process.
std::string Connect(const std::string& path);

// Whether collectives may start here: connected, not finalized, no forked child. Why not, or
// nullptr.
const char* FindUnusable();

// What an error code of MPI means.
std::string ErrorText(int code);

// The library's name and version.
std::string Describe();

}  // namespace opwright_mpi

#endif  // OPWRIGHT_MPI_LIBRARY_H_
