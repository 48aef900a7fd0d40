// Drawings of graphs in DOT.
#include "tests/unit/interposer/driver_fixture.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <unistd.h>

using namespace vgpu;
using namespace vgpu::test;

namespace {

struct drawing_fixture : driver_fixture {
  CUgraph graph = nullptr;
  CUgraphNode first = nullptr;
  std::string path = std::filesystem::temp_directory_path() /
                     ("graph-" + std::to_string(::getpid()) + ".dot");

  drawing_fixture() {
    REQUIRE_OK(cuGraphCreate(&graph, 0));
    REQUIRE_OK(cuGraphAddEmptyNode(&first, graph, nullptr, 0));
  }
  ~drawing_fixture() {
    cuGraphDestroy(graph);
    std::filesystem::remove(path);
  }

  std::string draw(unsigned flags = 0) {
    REQUIRE_OK(cuGraphDebugDotPrint(graph, path.c_str(), flags));
    std::ostringstream out;
    out << std::ifstream{path}.rdbuf();
    return out.str();
  }
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(graph_drawings, drawing_fixture)

BOOST_AUTO_TEST_CASE(nodes_and_edges_are_drawn_as_by_the_driver) {
  CUgraphNode second = nullptr;
  REQUIRE_OK(cuGraphAddEmptyNode(&second, graph, &first, 1));
  BOOST_TEST(draw() == "digraph dot {\n"
                       "subgraph cluster_1 {\n"
                       "label=\"graph_1\" graph[style=\"dashed\"];\n"
                       "\"graph_1_node_0\"[style=\"solid\" "
                       "shape=\"rectangle\" label=\"0\nEMPTY\n\"];\n\n"
                       "\"graph_1_node_1\"[style=\"solid\" "
                       "shape=\"rectangle\" label=\"1\nEMPTY\n\"];\n\n"
                       "\"graph_1_node_0\" -> \"graph_1_node_1\";\n"
                       "}\n"
                       "}\n");
}

BOOST_AUTO_TEST_CASE(kernels_have_names_and_shapes_on_request) {
  CUmodule module = nullptr;
  const char* ptx = ".version 8.0\n.target sm_75\n.address_size 64\n";
  REQUIRE_OK(cuModuleLoadData(&module, ptx));
  CUDA_KERNEL_NODE_PARAMS p{};
  REQUIRE_OK(cuModuleGetFunction(&p.func, module, "none"));
  p.gridDimX = 2;
  p.blockDimX = 32;
  p.gridDimY = p.gridDimZ = p.blockDimY = p.blockDimZ = 1;
  CUgraphNode node = nullptr;
  REQUIRE_OK(cuGraphAddKernelNode(&node, graph, nullptr, 0, &p));
  BOOST_TEST(has(draw(), "[style=\"bold\" shape=\"octagon\" "
                         "label=\"1\nnone\n\"]"));
  BOOST_TEST(has(draw(CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS),
                 "none\n\\<\\<\\<2,32,0\\>\\>\\>\n"));
  auto all = draw(CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE);
  BOOST_TEST(has(all, "node handle: 0x"));
  BOOST_TEST(has(all, "func handle: 0x"));
  BOOST_TEST(has(all, "(topoId: "));
  REQUIRE_OK(cuModuleUnload(module));
}

BOOST_AUTO_TEST_CASE(copies_show_source_and_target) {
  CUdeviceptr memory = 0;
  REQUIRE_OK(cuMemAlloc(&memory, 256));
  char host[64] = {};
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = memory;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = host;
  copy.WidthInBytes = 64;
  copy.Height = copy.Depth = 1;
  CUDA_MEMSET_NODE_PARAMS fill{};
  fill.dst = memory;
  fill.elementSize = 4;
  fill.width = 16;
  fill.height = 1;
  fill.value = 7;
  CUgraphNode node = nullptr;
  REQUIRE_OK(cuGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, primary));
  REQUIRE_OK(cuGraphAddMemsetNode(&node, graph, &node, 1, &fill, primary));
  auto text = draw();
  BOOST_TEST(has(text, "MEMCPY\n(DtoH,64)\n"));
  BOOST_TEST(has(text, "MEMSET\n(7,64)\n"));
  BOOST_TEST(has(draw(CU_GRAPH_DEBUG_DOT_FLAGS_EXTRA_TOPO_INFO),
                 "\"graph_1_node_1\" -> \"graph_1_node_2\" [headlabel=0];\n"));
  REQUIRE_OK(cuMemFree(memory));
}

BOOST_AUTO_TEST_CASE(child_graphs_are_drawn_after_their_parent) {
  CUgraph child = nullptr;
  CUgraphNode node = nullptr;
  REQUIRE_OK(cuGraphCreate(&child, 0));
  REQUIRE_OK(cuGraphAddEmptyNode(&node, child, nullptr, 0));
  REQUIRE_OK(cuGraphAddChildGraphNode(&node, graph, nullptr, 0, child));
  auto text = draw();
  BOOST_TEST(has(text, "label=\"1\ngraph_2\n\"]"));
  BOOST_TEST(has(text, "subgraph cluster_2 {\nlabel=\"graph_2\""));
  REQUIRE_OK(cuGraphDestroy(child));
}

BOOST_AUTO_TEST_CASE(an_unwritable_drawing_fails) {
  REQUIRE_OK(cuGraphDebugDotPrint(graph, path.c_str(), ~0U));
  CHECK_CODE(cuGraphDebugDotPrint(graph, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuGraphDebugDotPrint(nullptr, path.c_str(), 0),
             CUDA_ERROR_INVALID_VALUE);
  for (const char* nowhere : {"", "/nowhere/x.dot", "/tmp"})
    CHECK_CODE(cuGraphDebugDotPrint(graph, nowhere, 0),
               CUDA_ERROR_OPERATING_SYSTEM);
}

BOOST_AUTO_TEST_SUITE_END()
