#include "runtime/bundle/file_map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/status.h"

namespace opwright {

FileMap::FileMap(const std::string& path) {
  // Opens without blocking, since opening a pipe for reading would wait for a writer.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status{};
  if (file < 0 || fstat(file, &status) != 0) {
    const int error = errno;
    if (file >= 0) close(file);
    Throw(ErrorKind::kFormat, path, ": must be a file that can be read, got ",
          std::strerror(error));
  }
  if (!S_ISREG(status.st_mode)) {
    close(file);
    Throw(ErrorKind::kFormat, path, ": must be a regular file, got something else");
  }
  bytes_ = static_cast<uint64_t>(status.st_size);
  if (bytes_ != 0) {
    // The mapping is private and writable so that writes of a plan from a malicious file stay in
    // this process and do not crash it.
    data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file, 0);
  }
  const int error = errno;
  close(file);
  if (data_ == MAP_FAILED) {
    data_ = nullptr;
    Throw(ErrorKind::kOutOfMemory, path, ": its ", bytes_, " bytes must fit in the process, got ",
          std::strerror(error));
  }
}

FileMap::~FileMap() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace opwright
