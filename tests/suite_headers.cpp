// Nothing: a target needs a source to have a precompiled header, and main.cpp
// asks for other things of Boost.Test than all others.
