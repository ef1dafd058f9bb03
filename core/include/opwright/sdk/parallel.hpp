// Divides work between the host's threads.
#ifndef OPWRIGHT_SDK_PARALLEL_HPP_
#define OPWRIGHT_SDK_PARALLEL_HPP_

#include <atomic>
#include <cstdint>
#include <exception>

#include "opwright/abi.h"
#include "opwright/sdk/host.hpp"

namespace opwright {
namespace detail {

// Keeps the first exception that a share throws.
class ShareFailure {
 public:
  OPWRIGHT_COLD void Catch() noexcept {
    if (!has_failed_.exchange(true)) failure_ = std::current_exception();
  }
  void Rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::atomic<bool> has_failed_{false};
  std::exception_ptr failure_;
};

template <typename Function>
struct ShareCall {
  const Function* function;
  ShareFailure failure;

  static void Run(void* data, int32_t share) noexcept {
    auto* call = static_cast<ShareCall*>(data);
    try {
      (*call->function)(share);
    } catch (...) {
      call->failure.Catch();
    }
  }
};

}  // namespace detail

// Calls function(share) once for each share in [0, n_shares), on at most n_threads threads: the
// caller's thread and threads of the host. Returns when all calls have returned.
//
// Shares must not wait for each other, since all may run in one thread, in any order. Shares that
// do not write to the same cache line do not slow each other down. The first exception that a share
// throws is rethrown here when all have returned. A host older than 1.1 has no threads; all shares
// then run in the caller's thread.
//
//   opwright::Parallel(ctx.n_threads(), n_parts, [&](int32_t part) { ... });
template <typename Function>
void Parallel(int32_t n_threads, int32_t n_shares, const Function& function) {
  const ow_host* host = detail::loaded_as.host;
  if (n_threads <= 1 || n_shares <= 1 || host == nullptr || !OW_HAS(host, parallel)) {
    for (int32_t share = 0; share < n_shares; ++share) function(share);
    return;
  }
  detail::ShareCall<Function> call{&function, {}};
  host->parallel(n_threads, n_shares, &detail::ShareCall<Function>::Run, &call);
  call.failure.Rethrow();
}

}  // namespace opwright

#endif  // OPWRIGHT_SDK_PARALLEL_HPP_
