// Functions that the Python side of the engine calls through ctypes. Strings are written into a
// buffer that the caller provides.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "group.h"
#include "library.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace opwright_mpi {
namespace {

// Returns 0 if `fault` is empty; otherwise returns 1 and writes the message.
int Answer(const std::string& fault, char* text, int64_t size) {
  std::snprintf(text, static_cast<size_t>(size), "%s", fault.c_str());
  return fault.empty() ? 0 : 1;
}

opwright::Status NeverEnd() { return opwright::Status::Ok(); }

}  // namespace
}  // namespace opwright_mpi

using opwright_mpi::Answer;
using opwright_mpi::FindGroup;
using opwright_mpi::Mpi;

EXPORT int opwright_mpi_connect(const char* path, char* text, int64_t size) {
  const std::string fault = opwright_mpi::Connect(path);
  return Answer(fault.empty() ? opwright_mpi::AddWorld() : fault, text, size);
}

EXPORT int opwright_mpi_rank() { return FindGroup("world")->rank; }
EXPORT int opwright_mpi_size() { return FindGroup("world")->size; }

EXPORT int opwright_mpi_add_group(const char* name, const int* ranks, int n, char* text,
                                  int64_t size) {
  const char* unusable = opwright_mpi::FindUnusable();
  if (unusable != nullptr) return Answer(unusable, text, size);
  return Answer(opwright_mpi::AddGroup(name, std::vector<int>(ranks, ranks + n)), text, size);
}

EXPORT void opwright_mpi_set_deadline(double seconds) { opwright_mpi::SetDeadline(seconds); }

EXPORT int opwright_mpi_describe(char* text, int64_t size) {
  std::string line = opwright_mpi::Describe();
  line.resize(std::min(line.size(), line.find('\n')));
  if (FindGroup("world")->exchange() != nullptr) line += ", reductions in shared memory";
  return Answer(line, text, size);
}

// Sends `bytes` bytes to each process of a group and receives as many from each, in rank order.
EXPORT int opwright_mpi_gather(const char* group_name, const char* data, int64_t bytes, char* all,
                               char* text, int64_t size) {
  constexpr const char* kWho = "gather";
  opwright_mpi::Group* group = FindGroup(group_name);
  if (group == nullptr) return Answer("gather: this process is not in the group", text, size);
  const std::lock_guard<std::mutex> lock(group->mutex);
  opwright::Status status = group->Check(kWho);
  opwright_mpi::Request request = opwright_mpi::RequestNull();
  if (status.ok()) {
    const auto byte = opwright_mpi::TypeByte();
    status = group->Started(
        kWho, Mpi().Iallgather_c(data, bytes, byte, all, bytes, byte, group->first, &request));
  }
  if (status.ok()) status = group->Wait(kWho, opwright_mpi::NeverEnd, &request);
  return Answer(status.ok() ? "" : status.message(), text, size);
}

// Announces that this process will not start further collectives. find_remaining returns 0 once all
// processes have done so, or 1 and a message that names the missing processes.
EXPORT void opwright_mpi_say_goodbye() { FindGroup("world")->SayGoodbye(); }
EXPORT int opwright_mpi_find_remaining(char* text, int64_t size) {
  return Answer(FindGroup("world")->FindRemaining(), text, size);
}
EXPORT void opwright_mpi_finalize() {
  if (opwright_mpi::FindUnusable() == nullptr) Mpi().Finalize();
}
EXPORT void opwright_mpi_abort(int code) { Mpi().Abort(opwright_mpi::CommWorld(), code); }
EXPORT int opwright_mpi_may_finalize() {
  return opwright_mpi::FindUnusable() == nullptr && FindGroup("world")->Check("exit").ok() ? 1 : 0;
}
