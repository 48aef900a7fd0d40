#include "interposer/graph/graph_dot.hpp"

#include "interposer/graph/graph_condition.hpp"

#include "interposer/code/module.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <deque>
#include <map>

namespace vgpu::interposer {

namespace {

/// Escapes the characters that have a meaning in a label.
std::string escaped(std::string_view text) {
  std::string out;
  for (auto c : text) {
    if (c == '"' || c == '\\' || c == '<' || c == '>')
      out += '\\';
    out += c;
  }
  return out;
}

std::string hexadecimal(std::uint64_t x) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "0x%016llX",
                static_cast<unsigned long long>(x));
  return text.data();
}
std::string hexadecimal(const void* x) {
  return hexadecimal(reinterpret_cast<std::uintptr_t>(x));
}

std::string name_of(CUfunction handle) {
  if (auto* f = functions().find(handle); f != nullptr)
    return f->to->name;
  auto* k = find_kernel(reinterpret_cast<CUkernel>(handle));
  return k != nullptr ? k->name : "a kernel that was unloaded";
}

std::string text_of(const call::dim3& x) {
  if (x.y == 1 && x.z == 1)
    return std::to_string(x.x);
  return "(" + std::to_string(x.x) + "," + std::to_string(x.y) + "," +
         std::to_string(x.z) + ")";
}

char letter_of(transfer::side x) {
  switch (x) {
  case transfer::side::host:
    return 'H';
  case transfer::side::device:
    return 'D';
  case transfer::side::array:
    return 'A';
  case transfer::side::unified:
    break;
  }
  return 'U';
}

/// Describes how a node is drawn: its shape, and the text below its number.
struct look {
  const char* style = "solid";
  const char* shape = "rectangle";
  std::string text;
};

/// Draws one graph after the other, and the graphs of child nodes last.
class drawing {
public:
  explicit drawing(unsigned flags)
      : flags_((flags & CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE) != 0 ? ~0U : flags) {}

  std::string all(const graph& x) {
    std::string out = "digraph dot {\n";
    (void)number_of(x);
    for (; !open_.empty(); open_.pop_front())
      out += cluster(*open_.front());
    return out + "}\n";
  }

private:
  bool shows(unsigned flag) const noexcept { return (flags_ & flag) != 0; }

  std::string number_of(const graph& x) {
    auto [at, fresh] = numbers_.try_emplace(&x, numbers_.size() + 1);
    if (fresh)
      open_.push_back(&x);
    return std::to_string(at->second);
  }

  std::string cluster(const graph& x) {
    auto name = "graph_" + number_of(x);
    auto out = "subgraph cluster_" + number_of(x) + " {\nlabel=\"" + name +
               "\" graph[style=\"dashed\"];\n";
    const auto& order = x.in_order();
    std::map<const graph_node*, std::size_t> number, from_the_end;
    for (std::size_t i = 0; i < x.nodes().size(); ++i)
      number[x.nodes()[i].get()] = i;
    for (std::size_t i = 0; i < order.size(); ++i)
      from_the_end[order[i]] = order.size() - 1 - i;
    auto id = [&](const graph_node& node) {
      return "\"" + name + "_node_" + std::to_string(number[&node]) + "\"";
    };
    for (const auto& node : x.nodes())
      out += id(*node) +
             box(*node, number[node.get()], from_the_end[node.get()]) + "\n";
    for (const auto& node : x.nodes())
      for (const auto* next : x.dependents(*node))
        out += id(*node) + " -> " + id(*next) + edge(*node, *next);
    return out + "}\n";
  }

  std::string edge(const graph_node& from, const graph_node& to) const {
    if (!shows(CU_GRAPH_DEBUG_DOT_FLAGS_EXTRA_TOPO_INFO))
      return ";\n";
    auto at = std::find(to.after.begin(), to.after.end(), &from);
    return " [headlabel=" + std::to_string(at - to.after.begin()) + "];\n";
  }

  std::string box(const graph_node& x, std::size_t number,
                  std::size_t from_the_end) {
    auto label = std::to_string(number);
    if (shows(CU_GRAPH_DEBUG_DOT_FLAGS_EXTRA_TOPO_INFO))
      label += " (topoId: " + std::to_string(from_the_end) + ")";
    if (auto* chosen = std::get_if<conditional_work>(&x.what);
        chosen != nullptr)
      return table(*chosen, x, label);
    auto what = std::visit([&](const auto& w) { return look_of(w); }, x.what);
    auto first = what.text.find('\n') + 1;
    label += "\n" + what.text.substr(0, first);
    if (shows(CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES))
      label += "node handle: " + hexadecimal(x.handle) + "\n";
    label += what.text.substr(first);
    return std::string{"[style=\""} + what.style + "\" shape=\"" + what.shape +
           "\" label=\"" + label + "\"];\n";
  }

  // The functions below describe nodes by kind. The first line of the text is
  // the kind.

  look look_of(const empty_work&) const { return {.text = "EMPTY\n"}; }

  look look_of(const kernel_work& x) const {
    auto text = escaped(name_of(x.function)) + "\n";
    if (shows(CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES))
      text += "func handle: " + hexadecimal(x.function) + "\n";
    if (shows(CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS))
      text +=
          escaped("<<<" + text_of(x.shape.grid) + "," + text_of(x.shape.block) +
                  "," + std::to_string(x.shape.shared_bytes) + ">>>") +
          "\n";
    if (shows(CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_ATTRIBUTES))
      text +=
          "cooperative: " + std::to_string(x.shape.cooperative ? 1 : 0) + "\n";
    return {"bold", "octagon", text};
  }

  look look_of(const copy_work& x) const {
    const auto& t = x.what;
    auto bytes = t.size.width * t.size.height * t.size.depth;
    auto text = std::string{"MEMCPY\n("} + letter_of(t.from_side) + "to" +
                letter_of(t.to_side) + "," + std::to_string(bytes) + ")\n";
    if (shows(CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS))
      text += "src: " + hexadecimal(t.from.address) +
              "\ndst: " + hexadecimal(t.to.address) +
              "\nextent: " + std::to_string(t.size.width) + ", " +
              std::to_string(t.size.height) + ", " +
              std::to_string(t.size.depth) + "\n";
    return {"solid", "trapezium", text};
  }

  look look_of(const fill_work& x) const {
    const auto& p = x.what;
    auto bytes = p.width * p.height * p.elementSize;
    auto text = "MEMSET\n(" + std::to_string(p.value) + "," +
                std::to_string(bytes) + ")\n";
    if (shows(CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS))
      text += "dptr: " + hexadecimal(p.dst) +
              "\npitch: " + std::to_string(p.pitch) +
              "\nelementSize: " + std::to_string(p.elementSize) +
              "\nwidth: " + std::to_string(p.width) +
              "\nheight: " + std::to_string(p.height) + "\n";
    return {"solid", "invtrapezium", text};
  }

  look look_of(const host_work& x) const {
    std::string text = "HOST\n";
    if (shows(CU_GRAPH_DEBUG_DOT_FLAGS_HOST_NODE_PARAMS))
      text +=
          "fn: " + hexadecimal(reinterpret_cast<std::uintptr_t>(x.what.fn)) +
          "\nuserData: " + hexadecimal(x.what.userData) + "\n";
    return {.text = text};
  }

  look of_event(const char* kind, CUevent x) const {
    auto text = std::string{kind} + "\n";
    if (shows(CU_GRAPH_DEBUG_DOT_FLAGS_EVENT_NODE_PARAMS))
      text += "event: " + hexadecimal(x) + "\n";
    return {.text = text};
  }
  look look_of(const event_record_work& x) const {
    return of_event("EVENT_RECORD", x.event);
  }
  look look_of(const event_wait_work& x) const {
    return of_event("EVENT_WAIT", x.event);
  }

  look look_of(const operations_work& x) const {
    std::string text = "BATCH_MEM_OP\n";
    if (shows(CU_GRAPH_DEBUG_DOT_FLAGS_BATCH_MEM_OP_NODE_PARAMS))
      for (const auto& each : x.what)
        text += std::to_string(each.operation) + " at " +
                hexadecimal(each.waitValue.address) + ": " +
                hexadecimal(each.waitValue.value64) + "\n";
    return {.text = text};
  }

  look look_of(const child_work& x) {
    return {.text = "graph_" + number_of(*x.what) + "\n"};
  }

  /// Returns nothing, because table() draws these nodes.
  look look_of(const conditional_work&) const { return {}; }

  std::string table(const conditional_work& x, const graph_node& node,
                    const std::string& id) {
    auto row = [](const std::string& text) { return "| {" + text + "}\n"; };
    std::string out = "[style=\"bold\" shape=\"record\" label=\"{\n"
                      "CONDITIONAL\n" +
                      row("ID | " + id);
    if (shows(CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES))
      out += row("node handle| " + hexadecimal(node.handle)) +
             row("Conditional Handle|" + std::to_string(x.on->handle()));
    const auto* type = x.type == CU_GRAPH_COND_TYPE_IF      ? " IF"
                       : x.type == CU_GRAPH_COND_TYPE_WHILE ? " WHILE"
                                                            : " SWITCH";
    out += row(std::string{"Conditional Type|"} + type);
    for (std::size_t i = 0; i < x.bodies.size(); ++i) {
      auto body = "graph_" + number_of(*x.bodies[i]);
      out += row(x.type == CU_GRAPH_COND_TYPE_SWITCH
                     ? std::to_string(i) + "|  " + body
                 : i == 0 ? "True | " + body
                          : "False| " + body);
    }
    return out + "}\n\"];\n";
  }

  look look_of(const allocation_work& x) const {
    std::string text = "MEM_ALLOC\n";
    if (shows(CU_GRAPH_DEBUG_DOT_FLAGS_MEM_ALLOC_NODE_PARAMS))
      text += "bytesize: " + std::to_string(x.what->what.bytes) +
              "\ndptr: " + hexadecimal(x.what->address) + "\n";
    return {.text = text};
  }

  look look_of(const free_work& x) const {
    std::string text = "MEM_FREE\n";
    if (shows(CU_GRAPH_DEBUG_DOT_FLAGS_MEM_FREE_NODE_PARAMS))
      text += "dptr: " + hexadecimal(x.what->address) + "\n";
    return {.text = text};
  }

  const unsigned flags_;
  std::map<const graph*, std::size_t> numbers_;
  // Graphs that are still to be drawn
  std::deque<const graph*> open_;
};

} // namespace

std::string draw(const graph& x, unsigned flags) {
  return drawing{flags}.all(x);
}

} // namespace vgpu::interposer
