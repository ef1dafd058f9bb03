#include "library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <sstream>

namespace opwright_mpi {

namespace {

Library functions;
std::atomic<pid_t> connected_pid{0};

// Opens the library and loads its functions. Returns an empty string, or an error message; if the
// library is missing, dlerror provides the message.
std::string Load(const std::string& path) {
  // RTLD_GLOBAL, since MPI libraries load components that look up their symbols.
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) return dlerror();
  Library found;
#define OPWRIGHT_MPI_LOAD(name, parameters)                                          \
  *reinterpret_cast<void**>(&found.name) = dlsym(handle, "MPI_" #name);              \
  if (found.name == nullptr) {                                                       \
    return path + ": the function MPI_" #name " of the standard MPI ABI is missing"; \
  }
  OPWRIGHT_MPI_FUNCTIONS(OPWRIGHT_MPI_LOAD)
#undef OPWRIGHT_MPI_LOAD
  functions = found;
  return "";
}

std::string Initialize() {
  int initialized = 0;
  int finalized = 0;
  int level = 0;
  functions.Initialized(&initialized);
  functions.Finalized(&finalized);
  if (finalized != 0) return "MPI was finalized in this process and cannot start again";
  if (initialized != 0) {
    functions.Query_thread(&level);
  } else {
    // Requests full thread support. Without such support, MPICH takes 8 ms instead of 40 µs for 1
    // KB if there are more processes than cores.
    const int code = functions.Init_thread(nullptr, nullptr, kThreadMultiple, &level);
    if (code != kSuccess) return "MPI_Init_thread failed: " + ErrorText(code);
  }
  if (level < kThreadSerialized) {
    return "MPI must allow calls from any thread, got a lower thread level; pass "
           "MPI_THREAD_MULTIPLE to MPI_Init_thread";
  }
  functions.Comm_set_errhandler(CommWorld(), ErrorsReturn());
  return "";
}

}  // namespace

const Library& Mpi() { return functions; }

std::string Connect(const std::string& path) {
  if (connected_pid.load() != 0) return "";
  std::string fault = Load(path);
  if (fault.empty()) fault = Initialize();
  if (fault.empty()) connected_pid.store(getpid());
  return fault;
}

const char* FindUnusable() {
  const pid_t pid = connected_pid.load(std::memory_order_relaxed);
  if (pid == 0)
    return "this process is not connected to other processes; call opwright_dist.rank() first";
  if (pid != getpid()) {
    return "a forked child is not connected to the other processes; start worker processes with "
           "the "
           "method 'spawn', and run collectives only in the parent";
  }
  int finalized = 0;
  functions.Finalized(&finalized);
  if (finalized != 0) {
    return "MPI was finalized in this process and cannot start again; finalize it last";
  }
  return nullptr;
}

std::string ErrorText(int code) {
  char text[kMaxErrorString + 1] = {0};
  int length = 0;
  if (functions.Error_string == nullptr ||
      functions.Error_string(code, text, &length) != kSuccess) {
    std::ostringstream number;
    number << "MPI error " << code;
    return number.str();
  }
  return text;
}

std::string Describe() {
  char text[kMaxLibraryVersion + 1] = {0};
  int length = 0;
  if (functions.Get_library_version == nullptr ||
      functions.Get_library_version(text, &length) != kSuccess) {
    return "";
  }
  return text;
}

}  // namespace opwright_mpi
