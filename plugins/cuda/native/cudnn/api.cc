#include "cudnn/api.h"

#include <dlfcn.h>

#include <mutex>

namespace opwright_cuda {

namespace {

constexpr size_t kOldest = 91200;  // the first version for CUDA 13
constexpr size_t kCudaMajor = 13;
constexpr size_t kMessageBytes = 1024;

std::mutex& PathMutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
std::string& Path() {
  static auto* path = new std::string("libcudnn.so.9");
  return *path;
}

struct Opened {
  CudnnApi api;
  Status status = Load();

  Status Load() {
    const std::lock_guard<std::mutex> lock(PathMutex());
    void* library = dlopen(Path().c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return Status::Error("cuDNN cannot be loaded, got \"", dlerror(), "\"");
    const auto find = [library](const char* symbol, auto* function) -> Status {
      *function = reinterpret_cast<std::decay_t<decltype(*function)>>(dlsym(library, symbol));
      if (*function != nullptr) return Status::Ok();
      return Status::Error("cuDNN must be version 9.12 or newer, got ", Path(), " without ",
                           symbol);
    };
    OPWRIGHT_RETURN_IF_ERROR(find("cudnnGetVersion", &api.Version));
    if (api.Version() < kOldest) {
      return Status::Error("cuDNN must be version 9.12 or newer, got ", VersionText());
    }
    OPWRIGHT_RETURN_IF_ERROR(find("cudnnGetCudartVersion", &api.CudartVersion));
    if (api.CudartVersion() / 1000 != kCudaMajor) {  // its first use would abort the process
      return Status::Error("cuDNN must be built for CUDA ", kCudaMajor, ", got one for CUDA ",
                           api.CudartVersion() / 1000);
    }
    OPWRIGHT_RETURN_IF_ERROR(find("cudnnGetErrorString", &api.ErrorString));
    OPWRIGHT_RETURN_IF_ERROR(find("cudnnGetLastErrorString", &api.LastErrorString));
#define OPWRIGHT_CUDA_LOAD(name, symbol, parameters) \
  OPWRIGHT_RETURN_IF_ERROR(find(symbol, &api.name));
    OPWRIGHT_CUDA_CUDNN_FUNCTIONS(OPWRIGHT_CUDA_LOAD)
#undef OPWRIGHT_CUDA_LOAD
    return Status::Ok();
  }

  std::string VersionText() const {
    const size_t version = api.Version();
    // Version 9.12.0 is 91200. Before version 9, the first digit was followed by three digits.
    const size_t major = version >= 90000 ? version / 10000 : version / 1000;
    const size_t minor = version >= 90000 ? version / 100 % 100 : version / 100 % 10;
    return std::to_string(major) + "." + std::to_string(minor);
  }
};

}  // namespace

void SetCudnnPath(const std::string& path) {
  const std::lock_guard<std::mutex> lock(PathMutex());
  Path() = path;
}

Status OpenCudnn(const CudnnApi** api) {
  static const auto* opened = new Opened;
  *api = &opened->api;
  return opened->status;
}

Status CudnnApi::Check(int status, const char* what) const {
  if (status == 0) return Status::Ok();
  char message[kMessageBytes] = "";
  LastErrorString(message, sizeof(message));
  return Status::Error("cuDNN: ", what, " failed with ", ErrorString(status),
                       message[0] != '\0' ? ": " : "", message);
}

CudnnDescriptor::CudnnDescriptor(const CudnnApi& api, int type) : api_(&api) {
  status_ = api.Check(api.DescriptorCreate(type, &raw_), "making a descriptor");
  if (!status_.ok()) raw_ = nullptr;
}

CudnnDescriptor::~CudnnDescriptor() {
  if (raw_ != nullptr) api_->DescriptorDestroy(raw_);
}

CudnnDescriptor& CudnnDescriptor::operator=(CudnnDescriptor&& other) noexcept {
  std::swap(api_, other.api_);
  std::swap(raw_, other.raw_);
  std::swap(status_, other.status_);
  return *this;
}

void CudnnDescriptor::Set(int attribute, int type, size_t n, const void* elements) {
  if (!status_.ok()) return;
  const int result = api_->DescriptorSet(raw_, attribute, type, static_cast<int64_t>(n), elements);
  if (result == 0) return;
  const std::string what = "attribute " + std::to_string(attribute);
  status_ = api_->Check(result, what.c_str());
}

void CudnnDescriptor::SetHandle(int attribute, void* handle) {
  Set(attribute, cudnn::kHandle, 1, &handle);
}
void CudnnDescriptor::SetNumbers(int attribute, const std::vector<int64_t>& numbers) {
  Set(attribute, cudnn::kInt64, numbers.size(), numbers.data());
}
void CudnnDescriptor::SetFloat(int attribute, float number) {
  Set(attribute, cudnn::kFloat, 1, &number);
}
void CudnnDescriptor::SetBool(int attribute, bool value) {
  Set(attribute, cudnn::kBoolean, 1, &value);
}
void CudnnDescriptor::SetChoice(int attribute, int type, int choice) {
  Set(attribute, type, 1, &choice);
}
void CudnnDescriptor::SetDescriptors(int attribute, const std::vector<void*>& descriptors) {
  Set(attribute, cudnn::kBackendDescriptor, descriptors.size(), descriptors.data());
}
void CudnnDescriptor::SetPointers(int attribute, const std::vector<void*>& pointers) {
  Set(attribute, cudnn::kVoidPointer, pointers.size(), pointers.data());
}
void CudnnDescriptor::SetText(int attribute, const std::string& text) {
  Set(attribute, cudnn::kChar, text.size(), text.data());
}

Status CudnnDescriptor::Finalize(const char* what) {
  if (!status_.ok()) return status_;
  return api_->Check(api_->DescriptorFinalize(raw_), what);
}

Status CudnnDescriptor::GetNumber(int attribute, int64_t* number) const {
  int64_t n = 0;
  return api_->Check(api_->DescriptorGet(raw_, attribute, cudnn::kInt64, 1, &n, number),
                     "asking for a number");
}

Status CudnnDescriptor::GetChoices(int attribute, int type, std::vector<int>* choices) const {
  int64_t n = 0;
  choices->assign(32, 0);  // more elements than cuDNN has notes
  OPWRIGHT_RETURN_IF_ERROR(
      api_->Check(api_->DescriptorGet(raw_, attribute, type, 32, &n, choices->data()),
                  "asking for an engine's notes"));
  choices->resize(static_cast<size_t>(n));
  return Status::Ok();
}

Status CudnnDescriptor::GetDescriptor(int attribute, CudnnDescriptor* found) const {
  int64_t n = 0;
  return api_->Check(
      api_->DescriptorGet(raw_, attribute, cudnn::kBackendDescriptor, 1, &n, &found->raw_),
      "asking for an engine");
}

Status CudnnDescriptor::GetDescriptors(int attribute, int type,
                                       std::vector<CudnnDescriptor>* found) const {
  const auto get = [&](int64_t room, int64_t* n, void* elements) {
    return api_->Check(
        api_->DescriptorGet(raw_, attribute, cudnn::kBackendDescriptor, room, n, elements),
        "asking for engines");
  };
  int64_t n = 0;
  OPWRIGHT_RETURN_IF_ERROR(get(0, &n, nullptr));
  std::vector<void*> raw;
  found->clear();
  for (int64_t i = 0; i < n; ++i) {
    found->emplace_back(*api_, type);
    if (!found->back().status_.ok()) return found->back().status_;
    raw.push_back(found->back().raw());
  }
  if (n > 0) OPWRIGHT_RETURN_IF_ERROR(get(n, &n, raw.data()));
  found->resize(static_cast<size_t>(n));
  return Status::Ok();
}

}  // namespace opwright_cuda
