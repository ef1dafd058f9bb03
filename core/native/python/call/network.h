// CompiledNetwork: the callable for users. The class is a C type with vectorcall, since a Python
// wrapper would cost more than the call.
#ifndef OPWRIGHT_PYTHON_NETWORK_H_
#define OPWRIGHT_PYTHON_NETWORK_H_

#include <memory>

#include "python/call/plan_table.h"

namespace opwright {

struct Network {
  std::shared_ptr<Scope> scope;
  std::shared_ptr<Device> device;  // null for the host
  std::shared_ptr<const Epoch> epoch;
  PlanSet* plans = nullptr;  // the set in the object's `plans`
};

struct NetworkObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  Network* network;
  PyObject* scope;
  PyObject* feed_names;  // a tuple of interned strings
  PyObject* source;
  PyObject* plans;  // a Plans
  PyObject* weak_references;
  PyObject* fetch_as;  // default for calls; null keeps NumPy arrays
  PyObject* writes;    // a tuple of the names of feeds that the plans write, or null
  char fetch_device;
  char detach;
};

inline NetworkObject* NetworkOf(PyObject* object) {
  return reinterpret_cast<NetworkObject*>(object);
}

// Throws if the garbage collector has cleared the network.
PyObject* SourceOf(NetworkObject* self);

// The network's vectorcall.
PyObject* CallNetwork(PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* names);

// find_plan(feeds) returns the lowered plan for a dict of feeds, and the feeds in order.
PyObject* FindPlan(PyObject* object, PyObject* feeds);

}  // namespace opwright

#endif  // OPWRIGHT_PYTHON_NETWORK_H_
