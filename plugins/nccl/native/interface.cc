// Functions that the Python side of the engine calls through ctypes. Strings are written into a
// buffer that the caller provides.
#include <cstdio>
#include <cstring>
#include <string>

#include "cuda.h"
#include "group.h"
#include "library.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace opwright_nccl {
namespace {

// Returns 0 if `fault` is empty; otherwise returns 1 and writes the message.
int Answer(const std::string& fault, char* text, int64_t size) {
  std::snprintf(text, static_cast<size_t>(size), "%s", fault.c_str());
  return fault.empty() ? 0 : 1;
}

int AnswerCode(int code, char* text, int64_t size) {
  return Answer(code == kSuccess || code == kInProgress ? "" : ErrorText(code), text, size);
}

}  // namespace
}  // namespace opwright_nccl

using opwright_nccl::Answer;
using opwright_nccl::AnswerCode;
using opwright_nccl::FindGroup;
using opwright_nccl::Nccl;

EXPORT int opwright_nccl_open(const char* path, char* text, int64_t size) {
  return Answer(opwright_nccl::Open(path), text, size);
}

EXPORT int opwright_nccl_version(char* text, int64_t size) {
  int version = 0;
  const int code = Nccl().GetVersion(&version);
  if (code != opwright_nccl::kSuccess) return AnswerCode(code, text, size);
  Answer(opwright_nccl::VersionText(version), text, size);
  return 0;
}

EXPORT int opwright_nccl_make_id(char* id, char* text, int64_t size) {
  opwright_nccl::UniqueId made{};
  const int code = Nccl().GetUniqueId(&made);
  std::memcpy(id, made.bytes, sizeof(made.bytes));
  return AnswerCode(code, text, size);
}

// Connects a process to itself, which needs a GPU; on failure, the message contains the reason.
EXPORT int opwright_nccl_try(char* text, int64_t size) {
  opwright_nccl::UniqueId id{};
  opwright_nccl::Config config;
  config.blocking = 1;
  opwright_nccl::Comm comm = nullptr;
  int code = Nccl().GetUniqueId(&id);
  if (code == opwright_nccl::kSuccess) code = Nccl().CommInitRankConfig(&comm, 1, id, 0, &config);
  if (comm != nullptr) Nccl().CommAbort(comm);
  return AnswerCode(code, text, size);
}

EXPORT void opwright_nccl_set_services(const opwright_cuda_services* services,
                                       opwright_nccl::LoadKernelFn load,
                                       opwright_nccl::ConnectFn connect,
                                       opwright_nccl::PublishFn publish) {
  opwright_nccl::SetServices(services, load);
  opwright_nccl::SetConnect(connect);
  opwright_nccl::SetPublish(publish);
}

EXPORT void opwright_nccl_set_deadline(double seconds) { opwright_nccl::SetDeadline(seconds); }

EXPORT void opwright_nccl_add_group(const char* name, int rank, int n) {
  opwright_nccl::AddGroup(name, rank, n);
}

// Starts to connect a group; called by ConnectFn. Returns 0 once the group is connected, 1 and a
// message on failure, or 2 while connecting is in progress.
EXPORT int opwright_nccl_start(const char* group, const char* id, char* text, int64_t size) {
  opwright_nccl::UniqueId given{};
  std::memcpy(given.bytes, id, sizeof(given.bytes));
  return AnswerCode(FindGroup(group)->StartComm(given), text, size);
}
EXPORT int opwright_nccl_test(const char* group, char* text, int64_t size) {
  const int code = FindGroup(group)->FindCommState();
  return code == opwright_nccl::kInProgress ? 2 : AnswerCode(code, text, size);
}

// Returns -1 if the group is not connected or has failed; otherwise the result of Answer.
EXPORT int opwright_nccl_watch(const char* group, opwright_nccl::Progress* progress, char* text,
                               int64_t size) {
  const int code = FindGroup(group)->Watch(progress);
  return code < 0 ? -1 : AnswerCode(code, text, size);
}
EXPORT const char* opwright_nccl_name(int operation) { return opwright_nccl::NameOf(operation); }

EXPORT void opwright_nccl_fail(const char* group, const char* reason) {
  FindGroup(group)->Fail(reason);
}
EXPORT int opwright_nccl_is_usable(const char* group) { return FindGroup(group)->is_usable(); }
