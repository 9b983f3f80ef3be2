// Four operations of specsim in one file of C++17, checked over a pipe and by vectors: docs/any-language.md.
//
//   g++ -std=c++17 -O2 -o engine engine.cpp       with -DFAULT a count of drafts counts the root, too
//   specsim check --command ./engine              the suite calls it over stdin and stdout
//   ./engine DIR                                  it tests itself by vectors that `specsim vectors DIR` has written

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

using std::string;
using std::vector;

// ---- JSON: as much as headers have --------------------------------------------------------------------------------

struct Json {
    enum { NONE, NUMBER, TEXT, LIST, OBJECT } kind = NONE;
    double number = 0;
    int64_t integer = 0;
    string text;
    vector<Json> list;
    std::map<string, Json> object;

    const Json& at(const string& name) const {
        auto found = object.find(name);
        if (found == object.end()) throw std::runtime_error("no field " + name);
        return found->second;
    }
    bool has(const string& name) const { return object.count(name) > 0; }
};

class Parser {
  public:
    explicit Parser(const string& text) : text_(text) {}

    Json value() {
        Json json;
        char next = peek();
        if (next == '{') {
            json.kind = Json::OBJECT;
            each('}', [&] {
                string name = quoted();
                expect(':');
                json.object[name] = value();
            });
        } else if (next == '[') {
            json.kind = Json::LIST;
            each(']', [&] { json.list.push_back(value()); });
        } else if (next == '"') {
            json.kind = Json::TEXT;
            json.text = quoted();
        } else if (next == 't' || next == 'f') {
            json.kind = Json::NUMBER;
            json.number = json.integer = next == 't';
            place_ += next == 't' ? 4 : 5;
        } else if (next == 'n') {
            place_ += 4;
        } else {
            json.kind = Json::NUMBER;
            const char* begin = text_.c_str() + place_;
            char* end = nullptr;
            json.number = std::strtod(begin, &end);
            json.integer = std::strtoll(begin, nullptr, 10);
            if (end == begin) throw std::runtime_error("bad JSON");
            place_ += end - begin;
        }
        return json;
    }

  private:
    char peek() {
        while (place_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[place_]))) ++place_;
        if (place_ >= text_.size()) throw std::runtime_error("JSON ends early");
        return text_[place_];
    }
    void expect(char wanted) {
        if (peek() != wanted) throw std::runtime_error("bad JSON");
        ++place_;
    }
    template <class Entry>
    void each(char last, Entry entry) {
        ++place_;
        if (peek() == last) {
            ++place_;
            return;
        }
        for (;;) {
            entry();
            if (peek() == last) break;
            expect(',');
        }
        ++place_;
    }
    string quoted() {
        expect('"');
        string found;
        while (place_ < text_.size() && text_[place_] != '"') {
            if (text_[place_] == '\\') ++place_;  // names that we look at have no other escapes
            found += text_[place_++];
        }
        expect('"');
        return found;
    }
    const string& text_;
    size_t place_ = 0;
};

string in_quotes(const string& text) {
    string found = "\"";
    for (char one : text) {
        if (one == '"' || one == '\\') found += '\\';
        found += one < ' ' ? ' ' : one;
    }
    return found + "\"";
}

// ---- arrays, and the safetensors files that hold them -------------------------------------------------------------

struct Array {
    string dtype;  // as safetensors calls it: BOOL, I32, I64, F32, BF16, …
    vector<int64_t> shape;
    vector<uint8_t> bytes;

    int64_t size() const {
        int64_t entries = 1;
        for (int64_t one : shape) entries *= one;
        return entries;
    }
    size_t entry_size() const {
        static const std::map<string, size_t> sizes = {{"BOOL", 1}, {"U8", 1},  {"I8", 1},   {"U16", 2}, {"I16", 2},
                                                       {"F16", 2},  {"BF16", 2}, {"U32", 4}, {"I32", 4}, {"F32", 4},
                                                       {"U64", 8},  {"I64", 8},  {"F64", 8}};
        return sizes.at(dtype);
    }
    template <class T>
    T* as(const char* expected) {
        if (dtype != expected) throw std::runtime_error("an array is " + dtype + ", but should be " + expected);
        return reinterpret_cast<T*>(bytes.data());
    }
    template <class T>
    const T* as(const char* expected) const {
        return const_cast<Array*>(this)->as<T>(expected);
    }
};

using Arrays = std::map<string, Array>;

Array filled(const string& dtype, vector<int64_t> shape, int byte = 0) {
    Array array{dtype, std::move(shape), {}};
    array.bytes.assign(array.size() * array.entry_size(), static_cast<uint8_t>(byte));
    return array;
}

Arrays unpacked(const string& file) {
    Arrays arrays;
    if (file.empty()) return arrays;
    uint64_t length = 0;
    if (file.size() < 8) throw std::runtime_error("no safetensors file");
    std::memcpy(&length, file.data(), 8);
    if (length > file.size() - 8) throw std::runtime_error("no safetensors file");
    const string header = file.substr(8, length);
    for (const auto& [name, entry] : Parser(header).value().object) {
        if (name == "__metadata__") continue;
        Array array{entry.at("dtype").text, {}, {}};
        for (const Json& size : entry.at("shape").list) array.shape.push_back(size.integer);
        const uint64_t first = 8 + length + entry.at("data_offsets").list.at(0).integer;
        const uint64_t last = 8 + length + entry.at("data_offsets").list.at(1).integer;
        if (first > last || last > file.size()) throw std::runtime_error("no safetensors file");
        array.bytes.assign(file.begin() + first, file.begin() + last);
        arrays[name] = std::move(array);
    }
    return arrays;
}

string packed(const Arrays& arrays) {
    string header, data;
    for (const auto& [name, array] : arrays) {
        string shape;
        for (int64_t size : array.shape) shape += (shape.empty() ? "" : ",") + std::to_string(size);
        const string end = std::to_string(data.size() + array.bytes.size());
        header += (header.empty() ? "{" : ",") + in_quotes(name) + ":{\"dtype\":" + in_quotes(array.dtype);
        header += ",\"shape\":[" + shape + "],\"data_offsets\":[" + std::to_string(data.size()) + "," + end + "]}";
        data.append(array.bytes.begin(), array.bytes.end());
    }
    header += header.empty() ? "{}" : "}";
    const uint64_t length = header.size();
    return string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

// ---- the operations -----------------------------------------------------------------------------------------------

struct Call {
    std::map<string, int64_t> scalars;
    Arrays arrays;

    const Array& of(const string& name) const {
        auto found = arrays.find(name);
        if (found == arrays.end()) throw std::runtime_error("no argument " + name);
        return found->second;
    }
};

// What leads out of an array is an error, and not a crash: the suite tries that, too, and says what came of it.
void require(bool holds, const string& what) {
    if (!holds) throw std::runtime_error(what + " is out of bounds");
}

Arrays verify_chain_greedy(const Call& call) {
    const auto* drafts = call.of("draft_tokens").as<int64_t>("I64");
    const int64_t num_drafted = call.of("draft_tokens").size();
    const auto* offsets = call.of("cu_num_drafts").as<int32_t>("I32");
    const auto* chosen = call.of("target_predict").as<int64_t>("I64");
    const int64_t num_requests = call.of("cu_num_drafts").size() - 1, width = call.scalars.at("max_num_drafts") + 1;
    require(call.of("target_predict").size() == num_drafted + num_requests, "target_predict");
    Array tokens = filled("I32", {num_requests, width}, 0xFF), counts = filled("I32", {num_requests});
    for (int64_t request = 0; request < num_requests; ++request) {
        const int32_t first = offsets[request], last = offsets[request + 1];
        require(0 <= first && first <= last && last <= num_drafted && last - first < width, "cu_num_drafts");
        auto* row = tokens.as<int32_t>("I32") + request * width;
        int32_t count = 0;
        for (int64_t draft = first; draft < last; ++draft, ++count) {
            if (drafts[draft] != chosen[draft + request]) break;
            row[count] = static_cast<int32_t>(drafts[draft]);
        }
        row[count] = static_cast<int32_t>(chosen[first + request + count]);
        counts.as<int32_t>("I32")[request] = count;
    }
    return {{"output_tokens", tokens}, {"num_accepted_drafts", counts}};
}

Arrays verify_tree_greedy(const Call& call) {
    const Array& candidates = call.of("candidates");
    const auto* tokens = candidates.as<int64_t>("I64");
    const auto* child = call.of("retrieve_next_token").as<int64_t>("I64");
    const auto* sibling = call.of("retrieve_next_sibling").as<int64_t>("I64");
    const auto* chosen = call.of("target_predict").as<int64_t>("I64");
    const int64_t num_requests = candidates.shape.at(0), num_nodes = candidates.shape.at(1);
    const int64_t num_steps = call.scalars.at("num_steps"), width = num_steps + 1;
    for (const char* name : {"retrieve_next_token", "retrieve_next_sibling", "target_predict"})
        require(call.of(name).shape == candidates.shape && num_nodes > 0, name);
    Array predict = filled("I32", {num_requests * num_nodes}), path = filled("I32", {num_requests, width}, 0xFF);
    Array counts = filled("I32", {num_requests});
    for (int64_t request = 0; request < num_requests; ++request) {
        const int64_t first = request * num_nodes;
        int64_t last = 0;
        int32_t count = 0;
        path.as<int32_t>("I32")[request * width] = static_cast<int32_t>(first);
        while (count < num_steps) {
            int64_t node = child[first + last], num_tried = 0;
            while (node >= 0) {
                require(node < num_nodes && num_tried++ < num_nodes, "a link");
                if (tokens[first + node] == chosen[first + last]) break;
                node = sibling[first + node];
            }
            if (node < 0) break;
            predict.as<int32_t>("I32")[first + last] = static_cast<int32_t>(chosen[first + last]);
            path.as<int32_t>("I32")[request * width + ++count] = static_cast<int32_t>(first + node);
            last = node;
        }
        predict.as<int32_t>("I32")[first + last] = static_cast<int32_t>(chosen[first + last]);
#ifdef FAULT
        ++count;
#endif
        counts.as<int32_t>("I32")[request] = count;
    }
    return {{"predict", predict}, {"accept_index", path}, {"num_accepted_drafts", counts}};
}

Arrays compact_accepted_to_front(const Call& call) {
    const Array &values = call.of("values"), &path = call.of("accept_index");
    const int64_t num_requests = path.shape.at(0), width = path.shape.at(1);
    const int64_t num_nodes = num_requests ? values.shape.at(0) / num_requests : 0;
    const size_t size = values.shape.at(0) ? values.bytes.size() / values.shape.at(0) : 0;
    require(num_requests == 0 || width <= num_nodes, "accept_index");
    Array compacted = values;
    for (int64_t request = 0; request < num_requests; ++request)
        for (int64_t place = 0; place < width; ++place) {
            const int32_t node = path.as<int32_t>("I32")[request * width + place];
            if (node < 0 || !size) break;
            require(node < values.shape.at(0), "accept_index");
            std::memcpy(&compacted.bytes[(request * num_nodes + place) * size], &values.bytes[node * size], size);
        }
    return {{"compacted", compacted}};
}

Arrays min_p_renorm(const Call& call) {
    const Array& probabilities = call.of("probabilities");
    const int64_t num_rows = probabilities.shape.at(0), vocab = probabilities.shape.at(1);
    require(call.of("min_p").size() == num_rows, "min_p");
    Array renormalised = filled("F32", probabilities.shape);
    for (int64_t row = 0; row < num_rows; ++row) {
        const auto* weights = probabilities.as<float>("F32") + row * vocab;
        double largest = 0, total = 0;
        for (int64_t token = 0; token < vocab; ++token) largest = std::max<double>(largest, weights[token]);
        const double threshold = call.of("min_p").as<float>("F32")[row] * largest;
        for (int64_t token = 0; token < vocab; ++token) total += weights[token] >= threshold ? weights[token] : 0;
        for (int64_t token = 0; token < vocab; ++token)
            if (weights[token] >= threshold)
                renormalised.as<float>("F32")[row * vocab + token] = static_cast<float>(weights[token] / total);
    }
    return {{"renormalised", renormalised}};
}

const std::map<string, std::function<Arrays(const Call&)>> OPERATIONS = {
    {"verify_chain_greedy", verify_chain_greedy},
    {"verify_tree_greedy", verify_tree_greedy},
    {"compact_accepted_to_front", compact_accepted_to_front},
    {"min_p_renorm", min_p_renorm},
};

// ---- the pipe -----------------------------------------------------------------------------------------------------

bool read_exactly(void* to, size_t size) { return std::fread(to, 1, size, stdin) == size; }

void write_frame(const string& header, const string& body) {
    const uint32_t lengths[2] = {static_cast<uint32_t>(header.size()), static_cast<uint32_t>(body.size())};
    std::fwrite(lengths, 1, sizeof lengths, stdout);
    std::fwrite(header.data(), 1, header.size(), stdout);
    std::fwrite(body.data(), 1, body.size(), stdout);
    std::fflush(stdout);
}

int serve() {
    uint32_t lengths[2];
    while (read_exactly(lengths, sizeof lengths)) {
        string header(lengths[0], ' '), body(lengths[1], ' ');
        if (!read_exactly(header.data(), header.size()) || !read_exactly(body.data(), body.size())) return 1;
        const Json asked = Parser(header).value();
        const string id = "{\"id\": " + std::to_string(asked.at("id").integer);
        if (asked.has("hello")) {
            string names;
            for (const auto& entry : OPERATIONS) names += (names.empty() ? "" : ", ") + in_quotes(entry.first);
            const string about = ", \"hello\": \"specsim.pipe/1\", \"name\": \"engine.cpp\", \"version\": \"1.0\"";
            write_frame(id + about + ", \"operations\": [" + names + "]}", "");
            continue;
        }
        try {
            Call call{{}, unpacked(body)};
            for (const auto& [name, value] : asked.at("scalars").object) call.scalars[name] = value.integer;
            write_frame(id + "}", packed(OPERATIONS.at(asked.at("operation").text)(call)));
        } catch (const std::exception& error) {
            write_frame(id + ", \"error\": " + in_quotes(error.what()) + "}", "");
        }
    }
    return 0;
}

// ---- the vectors --------------------------------------------------------------------------------------------------

string content(const string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error(path + " cannot be read");
    return {std::istreambuf_iterator<char>(file), {}};
}

bool as_number(const Array& array, int64_t place, double& number) {
    if (array.dtype == "F32") {
        float value;
        std::memcpy(&value, &array.bytes[place * 4], 4);
        number = value;
    } else if (array.dtype == "F64") {
        std::memcpy(&number, &array.bytes[place * 8], 8);
    } else {
        return false;  // whole numbers and truth values agree bit for bit; none of our operations computes in 16 bits
    }
    return true;
}

// Return where an output first differs from what is expected of it, or an empty text.
string difference(const Array& expected, const Array& got, const Array& is_defined, const Array* tolerance) {
    if (expected.dtype != got.dtype || expected.shape != got.shape) return "has another type or shape";
    const size_t size = expected.entry_size();
    for (int64_t place = 0; place < expected.size(); ++place) {
        double wanted = 0, found = 0, most = 0;
        const bool is_same = !std::memcmp(&expected.bytes[place * size], &got.bytes[place * size], size);
        if (!is_defined.bytes[place] || is_same) continue;
        if (as_number(expected, place, wanted) && as_number(got, place, found)) {
            if (tolerance) as_number(*tolerance, place, most);
            if (wanted == found || std::fabs(found - wanted) <= most || (wanted != wanted && found != found)) continue;
        }
        return "differs in entry " + std::to_string(place);
    }
    return "";
}

// Return the first output that is not what a case expects, and why, or an empty text.
string first_wrong(const Arrays& got, const vector<Json>& expected, const string& prefix, const Arrays& arrays) {
    for (const Json& output : expected) {
        const string& name = output.text;
        const auto found = got.find(name), tolerance = arrays.find(prefix + "tolerance/" + name);
        if (found == got.end()) return name + " is missing";
        const string wrong = difference(arrays.at(prefix + "expected/" + name), found->second,
                                        arrays.at(prefix + "defined/" + name),
                                        tolerance == arrays.end() ? nullptr : &tolerance->second);
        if (!wrong.empty()) return name + " " + wrong;
    }
    return "";
}

int run_vectors(const string& folder) {
    const string text = content(folder + "/manifest.json");
    const Json manifest = Parser(text).value();
    if (manifest.at("format").text != "specsim.vectors/1") throw std::runtime_error("manifest.json has another format");
    int num_cases = 0, num_failed = 0;
    for (const auto& [name, operation] : OPERATIONS) {
        if (!manifest.at("operations").has(name)) continue;
        const Json& files = manifest.at("operations").at(name).at("files");
        const string text_of_cases = content(folder + "/" + files.at("cases").text);
        const Json cases = Parser(text_of_cases).value();
        const Arrays arrays = unpacked(content(folder + "/" + files.at("arrays").text));
        int number = -1;
        for (const Json& one : cases.at("cases").list) {
            ++number;
            if (one.has("rejection")) continue;  // we do not promise to refuse bad input
            const string prefix = std::to_string(number) + "/";
            Call call;
            for (const auto& [scalar, value] : one.at("scalars").object) call.scalars[scalar] = value.integer;
            for (const Json& argument : one.at("arguments").list)
                call.arrays[argument.text] = arrays.at(prefix + "arguments/" + argument.text);
            string wrong;
            try {
                wrong = first_wrong(operation(call), one.at("expected").list, prefix, arrays);
            } catch (const std::exception& error) {
                wrong = error.what();
            }
            ++num_cases;
            if (!wrong.empty() && num_failed++ < 10)
                std::cout << "FAILED " << name << " case " << number << ": " << wrong << "\n";
        }
    }
    std::cout << (num_failed ? "fails: " : num_cases ? "conforms: " : "nothing selected: ") << num_cases << " cases, "
              << num_failed << " failed\n";
    return num_failed ? 1 : num_cases ? 0 : 5;
}

int main(int count, char** words) {
    try {
        return count > 1 ? run_vectors(words[1]) : serve();
    } catch (const std::exception& error) {
        std::cerr << "engine: " << error.what() << "\n";
        return 2;
    }
}
