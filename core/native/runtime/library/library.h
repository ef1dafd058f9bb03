// Compiled plugins: shared libraries with tables of operators, kernels and devices.
#ifndef OPWRIGHT_RUNTIME_LIBRARY_H_
#define OPWRIGHT_RUNTIME_LIBRARY_H_

#include <memory>
#include <string>

#include "opwright/abi.h"

namespace opwright {

// An open library with checked tables. The library stays open as long as the process, because
// threads that it has started, such as OpenMP threads, run its code even if its objects are unused.
class Library {
 public:
  // Opens a file with local visibility and calls its entry function for the tables. A file is
  // opened only once, even through several paths. Throws kPlugin with a message that begins with
  // `path` and states the broken rule. Thread-safe.
  static std::shared_ptr<Library> Open(const std::string& path);

  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const std::string& path() const { return path_; }
  const ow_plugin& plugin() const { return *plugin_; }

 private:
  explicit Library(const std::string& path) : path_(path) {}

  void OpenHandle();
  void TakeTable();
  ow_plugin_entry_fn FindEntry() const;

  std::string path_;  // the path by which it was first opened
  void* handle_ = nullptr;
  const ow_plugin* plugin_ = nullptr;
};

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_LIBRARY_H_
