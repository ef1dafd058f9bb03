// The NCCL library of this process, which is opened at run time.
#ifndef OPWRIGHT_NCCL_LIBRARY_H_
#define OPWRIGHT_NCCL_LIBRARY_H_

#include <string>

#include "nccl_api.h"

namespace opwright_nccl {

// The functions of the library; their names omit "nccl".
struct Library {
#define OPWRIGHT_NCCL_MEMBER(name, parameters) int(*name) parameters = nullptr;
  OPWRIGHT_NCCL_FUNCTIONS(OPWRIGHT_NCCL_MEMBER)
#undef OPWRIGHT_NCCL_MEMBER
  const char* (*GetErrorString)(int) = nullptr;
  const char* (*GetLastError)(Comm) = nullptr;
};

// Returns the function table; its entries are null before Open is called.
const Library& Nccl();

// Opens the library at `path`, once per process. Returns an error message or an empty string.
std::string Open(const std::string& path);

// Formats 23203 as "2.32.3".
std::string VersionText(int version);

// Describes an error code, including the last message of the library.
std::string ErrorText(int code);

}  // namespace opwright_nccl

#endif  // OPWRIGHT_NCCL_LIBRARY_H_
