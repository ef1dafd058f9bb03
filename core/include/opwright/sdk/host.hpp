// The host that has loaded the plugin.
#ifndef OPWRIGHT_SDK_HOST_HPP_
#define OPWRIGHT_SDK_HOST_HPP_

#include "opwright/abi.h"
#include "opwright/sdk/status.hpp"

namespace opwright {
namespace detail {

// The plugin's name and its host, for functions without a call frame; set by the entry function.
struct LoadedAs {
  const char* plugin = "";
  const ow_host* host = nullptr;
};
OPWRIGHT_LOCAL inline LoadedAs loaded_as;

}  // namespace detail
}  // namespace opwright

#endif  // OPWRIGHT_SDK_HOST_HPP_
