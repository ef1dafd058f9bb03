// Checks the header of a file before it is opened as a library.
#ifndef OPWRIGHT_RUNTIME_ELF_FILE_H_
#define OPWRIGHT_RUNTIME_ELF_FILE_H_

#include <string>

namespace opwright {

// Throws kPlugin unless the open file is a complete shared library for this process. The loader's
// message would mostly be "invalid ELF header", and a truncated file would crash the process.
void CheckElfFile(int file, const std::string& path);

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_ELF_FILE_H_
