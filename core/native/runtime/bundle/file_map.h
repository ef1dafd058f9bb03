// A file that is mapped into memory as long as this object exists.
#ifndef OPWRIGHT_RUNTIME_FILE_MAP_H_
#define OPWRIGHT_RUNTIME_FILE_MAP_H_

#include <cstdint>
#include <string>

namespace opwright {

class FileMap {
 public:
  // Throws kFormat unless the file is regular and readable.
  explicit FileMap(const std::string& path);
  ~FileMap();
  FileMap(const FileMap&) = delete;
  FileMap& operator=(const FileMap&) = delete;

  const uint8_t* data() const { return static_cast<const uint8_t*>(data_); }
  uint64_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_FILE_MAP_H_
