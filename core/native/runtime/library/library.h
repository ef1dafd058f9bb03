// Compiled plugins: shared libraries with tables of operators, kernels and devices.
#ifndef OPWRIGHT_RUNTIME_LIBRARY_H_
#define OPWRIGHT_RUNTIME_LIBRARY_H_

#include <memory>
#include <string>

#include "opwright/abi.h"

namespace opwright {

// An open library whose tables have been checked. It stays open as long as the process: threads
// that it has started, such as OpenMP's, run its code even if nothing of it is in use.
class Library {
 public:
  // Opens a file with local visibility and calls its entry function for the tables. A real file,
  // with any path, is opened once. Throws kPlugin, beginning with `path` and naming the rule that
  // is broken; safe to call from several threads.
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

  std::string path_;  // the first path by which it was opened
  void* handle_ = nullptr;
  const ow_plugin* plugin_ = nullptr;
};

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_LIBRARY_H_
