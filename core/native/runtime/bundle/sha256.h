// SHA-256 (FIPS 180-4), to detect damaged bundles.
#ifndef OPWRIGHT_RUNTIME_SHA256_H_
#define OPWRIGHT_RUNTIME_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace opwright {

using Digest = std::array<uint8_t, 32>;

Digest Sha256(const uint8_t* data, size_t size);

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_SHA256_H_
