#include "python/call/plan_table.h"

#include <algorithm>
#include <new>
#include <utility>

#include "python/bind/c_type.h"
#include "python/bind/errors.h"
#include "python/bind/handles.h"
#include "runtime/device/host_memory.h"

namespace opwright {

uint64_t PlanSet::clock = 0;

PlanSet::PlanSet(std::string label, bool keeps_last)
    : label_(std::move(label)), keeps_last_(keeps_last) {
  PlanTable::Get().sets_.push_back(this);
}

PlanSet::~PlanSet() {
  Clear();
  auto& sets = PlanTable::Get().sets_;
  sets.erase(std::find(sets.begin(), sets.end(), this));
}

void PlanSet::SetLast(EntryPtr entry) {
  const EntryPtr before = std::exchange(last_, std::move(entry));
  if (!keeps_last_) return;
  if (last_) last_->plan->KeepMemory(true);
  if (before) before->plan->KeepMemory(false);
}

void PlanSet::Add(EntryPtr entry, const PlanEntry* replaced) {
  PlanTable::Dropped
      dropped;  // freed last, when the table is consistent, since freeing may run Python code
  PlanTable& table = PlanTable::Get();
  const bool has_outdated = newest_made_at_ != entry->made_at;
  newest_made_at_ = entry->made_at;
  for (auto place = entries_.begin(); place != entries_.end();) {
    if (place->second.get() == replaced || (has_outdated && !place->second->IsCurrent())) {
      table.Count(*place->second, -1);
      dropped.push_back(std::move(place->second));
      place = entries_.erase(place);
    } else if (has_outdated || replaced != nullptr) {
      ++place;
    } else {
      break;
    }
  }
  entry->last_used = ++clock;
  table.Count(*entry, 1);
  entries_.emplace(entry->hash, entry);
  SetLast(std::move(entry));
  table.KeepBound(&dropped);
}

void PlanSet::Clear() {
  Entries dropped;
  dropped.swap(entries_);
  SetLast({});
  for (const auto& [hash, entry] : dropped) PlanTable::Get().Count(*entry, -1);
}

int64_t PlanSet::bytes() const {
  int64_t bytes = 0;
  for (const auto& [hash, entry] : entries_) bytes += entry->bytes;
  return bytes;
}

int64_t PlanSet::idle_bytes() const {
  int64_t bytes = 0;
  for (const auto& [hash, entry] : entries_) bytes += entry->plan->idle_bytes();
  return bytes;
}

PlanTable& PlanTable::Get() {
  static auto& table = *new PlanTable;  // never destroyed, as owners may outlive statics
  return table;
}

void PlanTable::KeepBound(Dropped* dropped) {
  while (n_plans_ > kMostPlans || bytes_ > kMostBytes) {
    std::vector<uint64_t> uses;  // last uses of the plans that may be dropped
    for (const PlanSet* set : sets_) {
      for (const auto& [hash, entry] : set->entries_) {
        if (entry != set->last_) uses.push_back(entry->last_used);
      }
    }
    if (uses.empty()) break;
    // If there are many plans, several are dropped at a time, because searching for the oldest plan
    // each time would take longer than lowering a small plan.
    const auto newest = uses.begin() + static_cast<int64_t>(uses.size() / kDroppedShare);
    std::nth_element(uses.begin(), newest, uses.end());
    Drop(
        [newest](const PlanSet& set, const EntryPtr& entry) {
          return entry != set.last_ && entry->last_used <= *newest;
        },
        dropped);
  }
}

py::list PlanTable::Describe() const {
  py::list rows;
  for (const PlanSet* set : sets_) {
    if (set->size() == 0) continue;
    rows.append(py::make_tuple(set->label_, set->size(), set->bytes(), set->idle_bytes()));
  }
  return rows;
}

void PlanTable::Release(bool all) {
  Dropped dropped;  // freed at the end, as in PlanSet::Add
  Drop([all](const PlanSet& set, const EntryPtr& entry) { return all || entry != set.last_; },
       &dropped);
  for (PlanSet* set : sets_) {
    if (all) set->last_ = {};
  }
}

template <typename May>
void PlanTable::Drop(const May& may_drop, Dropped* dropped) {
  for (PlanSet* set : sets_) {
    for (auto place = set->entries_.begin(); place != set->entries_.end();) {
      if (!may_drop(*set, place->second)) {
        ++place;
        continue;
      }
      Count(*place->second, -1);
      dropped->push_back(std::move(place->second));
      place = set->entries_.erase(place);
    }
  }
}

namespace {

struct PlansObject {
  PyObject_HEAD PlanSet* set;
};

PlansObject* Of(PyObject* object) { return reinterpret_cast<PlansObject*>(object); }

PyTypeObject* plans_type = nullptr;  // set once, with the module

PyObject* MakePlans(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {"label", "keeps_last", nullptr};
  const char* label = nullptr;
  int keeps_last = 1;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|p", const_cast<char**>(keywords), &label,
                                   &keeps_last)) {
    return nullptr;
  }
  try {
    auto set = std::make_unique<PlanSet>(label, keeps_last != 0);
    PyObject* object = type->tp_alloc(type, 0);
    if (object != nullptr) Of(object)->set = set.release();
    return object;
  } catch (...) {
    return SetPythonError();
  }
}

bool SameKey(const py::object& a, const py::handle& b) {
  const int same = PyObject_RichCompareBool(a.ptr(), b.ptr(), Py_EQ);
  if (same < 0) throw py::error_already_set();
  return same == 1;
}

EntryPtr FindByKey(PlanSet* set, const py::handle& key) {
  const auto hash = static_cast<uint64_t>(py::hash(key));
  std::vector<EntryPtr> candidates;  // a comparison may change the set
  const auto range = set->entries().equal_range(hash);
  for (auto place = range.first; place != range.second; ++place) {
    candidates.push_back(place->second);
  }
  for (const auto& entry : candidates) {
    if (!SameKey(entry->key.rest, key)) continue;
    return set->Find([&](const PlanEntry& other) { return &other == entry.get(); },
                     [&] { return hash; });
  }
  return {};
}

PyObject* FindPlans(PyObject* object, PyObject* key) {
  try {
    const auto entry = FindByKey(Of(object)->set, key);
    return entry ? Py_NewRef(entry->lowered.ptr()) : Py_NewRef(Py_None);
  } catch (...) {
    return SetPythonError();
  }
}

// add(key, epoch, made_at, lowered)
PyObject* AddPlans(PyObject* object, PyObject* const* args, Py_ssize_t n) {
  if (n != 4) {
    PyErr_SetString(PyExc_TypeError, "add requires a key, an epoch, its number and a lowered plan");
    return nullptr;
  }
  try {
    auto entry = EntryPtr::Make();
    entry->key.rest = py::reinterpret_borrow<py::object>(args[0]);
    entry->hash = static_cast<uint64_t>(py::hash(entry->key.rest));
    entry->epoch = py::handle(args[1]).cast<std::shared_ptr<Epoch>>();
    entry->made_at = py::handle(args[2]).cast<uint64_t>();
    entry->lowered = py::reinterpret_borrow<py::object>(args[3]);
    entry->plan = entry->lowered.attr("plan").cast<PlanHandle&>().plan;
    entry->plan->BoundIdleMemory();
    entry->bytes = entry->plan->held_bytes;
    const auto old = FindByKey(Of(object)->set, entry->key.rest);
    Of(object)->set->Add(std::move(entry), old.get());
    return Py_NewRef(args[3]);
  } catch (...) {
    return SetPythonError();
  }
}

PyObject* ClearPlans(PyObject* object, PyObject*) {
  Of(object)->set->Clear();
  return Py_NewRef(Py_None);
}

PyObject* LastPlan(PyObject* object, void*) {
  const auto& last = Of(object)->set->last();
  return Py_NewRef(last && last->lowered ? last->lowered.ptr() : Py_None);
}

Py_ssize_t CountPlans(PyObject* object) { return static_cast<Py_ssize_t>(Of(object)->set->size()); }

int TraversePlans(PyObject* object, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(object));
  if (Of(object)->set == nullptr) return 0;
  for (const auto& [hash, entry] : Of(object)->set->entries()) {
    Py_VISIT(entry->lowered.ptr());
    Py_VISIT(entry->key.rest.ptr());
  }
  return 0;
}

int BreakPlans(PyObject* object) {
  if (Of(object)->set != nullptr) Of(object)->set->Clear();
  return 0;
}

void DeallocatePlans(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  delete Of(object)->set;
  type->tp_free(object);
  Py_DECREF(type);
}

PyMethodDef plans_methods[] = {
    {"find", FindPlans, METH_O, "The lowered plan of a key, if it is current, or None."},
    {"add", AsMethod(AddPlans), METH_FASTCALL,
     "add(key, epoch, made_at, lowered): keep a plan, and return it."},
    {"clear", ClearPlans, METH_NOARGS, "Drop the plans; running plans continue."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef plans_properties[] = {
    {"last", LastPlan, nullptr, "The last used lowered plan, or None.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot plans_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(MakePlans)},
    {Py_tp_traverse, reinterpret_cast<void*>(TraversePlans)},
    {Py_tp_clear, reinterpret_cast<void*>(BreakPlans)},
    {Py_tp_dealloc, reinterpret_cast<void*>(DeallocatePlans)},
    {Py_tp_methods, plans_methods},
    {Py_tp_getset, plans_properties},
    {Py_sq_length, reinterpret_cast<void*>(CountPlans)},
    {Py_tp_doc, const_cast<char*>("The plans of one owner, in the table of the process.")},
    {0, nullptr}};

PyType_Spec plans_spec = {"opwright._runtime.Plans", sizeof(PlansObject), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, plans_slots};

}  // namespace

PyObject* NewPlans(std::string label, bool keeps_last) {
  PyObject* object = plans_type->tp_alloc(plans_type, 0);
  if (object == nullptr) return nullptr;
  try {
    Of(object)->set = new PlanSet(std::move(label), keeps_last);
    return object;
  } catch (...) {
    Py_DECREF(object);
    return SetPythonError();
  }
}

PlanSet& PlansOf(PyObject* plans) { return *Of(plans)->set; }

void BindPlanTable(py::module_& module) {
  py::class_<Epoch, std::shared_ptr<Epoch>>(
      module, "Epoch", py::is_final(), "A counter that is incremented when plans may be outdated.")
      .def(py::init<>())
      .def_property_readonly("now", &Epoch::now)
      .def("advance", &Epoch::Raise);
  module.def("advance_epochs", &Epoch::RaiseAll);
  plans_type = AddType(module, "Plans", &plans_spec);
  module.def("describe_plans", [] { return PlanTable::Get().Describe(); });
  module.def("release_plans", [](bool all) { PlanTable::Get().Release(all); }, py::arg("all"));
  module.def("packed_bytes", [] { return PackStore::Get().bytes(); });
  module.def("kept_host_bytes", &KeptHostBytes);
  module.def("free_kept_host", &FreeKeptHost);
}

}  // namespace opwright
