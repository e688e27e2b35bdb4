// SPDX-License-Identifier: Apache-2.0
#include "cli/parse.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "base/text.h"
#include "cli/option_values.h"
#include "cli/verbs.h"

namespace dsec::cli {

namespace {

constexpr const char* kSources =
    "SOURCE is oci:DIR[:REF] (an OCI image layout), docker-archive:FILE[:REF] (what docker save writes), tar:FILE or\n"
    "dir:PATH. The same input gives the same digests.";
constexpr const char* kRunFooter =
    "The exit status is the command's own; 124 after --timeout, 125 when dsec failed, 126 when the command cannot be\n"
    "executed, 127 when it is not there, 128+N when signal N killed it. What the command writes is gone afterwards\n"
    "unless --keep. A command that is given replaces the environment's entrypoint and cmd.";

constexpr std::uint64_t kMostIterations = 1'000'000'000;  // of `fs top`, one a second
constexpr std::uint64_t kMostProcesses = 1u << 22;        // as the kernel (PID_MAX_LIMIT)

// What CLI11 asks for the mistake in a value; `name` is what the value is called in the help.
template <typename Parse>
CLI::Validator valid(const char* name, Parse parse) {
  const auto mistake = [parse](const std::string& text) {
    const auto value = parse(text);
    return value ? std::string() : value.error().message;
  };
  return CLI::Validator(mistake, name);
}

CLI::Validator count_of(std::uint64_t low, std::uint64_t high) {
  return valid("NUMBER", [low, high](const std::string& text) { return parse_count(text, low, high); });
}

// Collects the verbs; each adds its options to its own argument struct, which lives as long as the action.
class Parser {
 public:
  Parser() {
    app_.set_version_flag("--version", std::string("dsec ") + DSEC_VERSION);
    app_.require_subcommand(1);
    app_.footer(
        "`dsec VERB --help` tells more. DSEC_STORE names the store, DSEC_STATE_DIR and DSEC_RUNTIME_DIR where\n"
        "writable layers and sockets are.");
    add_compose();
    add_env();
    add_layer();
    add_store();
    add_run();
    add_sandboxes();
    add_mounts();
    add_prefetch();
    add_fs();
    add_doctor();
  }

  Action parse(int argc, char** argv) {
    std::vector<std::string> arguments(argv + 1, argv + argc);
    if (is_misspelled(arguments)) return kExitUsage;
    split_command(arguments);
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes a vector
    try {
      app_.parse(arguments);
    } catch (const CLI::ParseError& error) {
      const int code = app_.exit(error);
      return code == 0 ? kExitOk : kExitUsage;
    }
    return chosen_;
  }

 private:
  template <typename Args, typename Verb>
  std::shared_ptr<Args> on(CLI::App* app, Verb verb) {
    auto args = std::make_shared<Args>();
    app->callback([this, args, verb] { chosen_ = [args, verb] { return verb(*args); }; });
    return args;
  }

  static void common(CLI::App* app, CommonArgs& args, const char* json_help = "Print one JSON document") {
    app->add_option("--store", args.store, "Store directory [$DSEC_STORE, or /var/lib/dsec/store for root]");
    app->add_flag("--json", args.json, json_help);
  }

  void add_compose() {
    CLI::App* app =
        app_.add_subcommand("compose", "Make layers and an environment from images, archives or directories");
    auto args = on<ComposeArgs>(app, compose_verb);
    app->add_option("-f,--file", args->manifest, "Manifest (env.toml)");
    app->add_option("--from", args->from, "Source of a single [[layer]]");
    app->add_option("--name", args->name, "NAME[:TAG] of the environment; over a manifest's own");
    app->add_option("--target", args->target, "Directory that the tree of --from is placed in");
    app->add_option("-j,--jobs", args->jobs, "Threads that hash and compress [one a processor]")
        ->check(count_of(1, 256));
    app->add_flag("--strict", args->strict, "Warnings are errors");
    app->add_flag("--squash", args->squash, "One layer for each image");
    app->add_flag("--high", args->high_compression, "Compress better and slower (LZ4HC)");
    common(app, args->common);
    app->footer(kSources);
  }

  void add_env() {
    CLI::App* app = app_.add_subcommand("env", "List, show and remove environments")->require_subcommand(1);
    CLI::App* ls = app->add_subcommand("ls", "List environments");
    common(ls, *on<CommonArgs>(ls, env_ls_verb));
    add_names(app->add_subcommand("inspect", "Show layers, sizes and configuration"), env_inspect_verb,
              "NAME[:TAG] or digest");
    add_names(app->add_subcommand("rm", "Remove names; what they name stays in the store"), env_rm_verb, "NAME[:TAG]");
  }

  void add_layer() {
    CLI::App* app = app_.add_subcommand("layer", "List and show layers")->require_subcommand(1);
    CLI::App* ls = app->add_subcommand("ls", "List layers");
    common(ls, *on<CommonArgs>(ls, layer_ls_verb));
    add_names(app->add_subcommand("inspect", "Show sizes"), layer_inspect_verb, "NAME[@VERSION] or digest");
  }

  template <typename Verb>
  void add_names(CLI::App* app, Verb verb, const char* what) {
    auto args = on<NameArgs>(app, verb);
    app->add_option("name", args->names, what)->required();
    common(app, args->common);
  }

  void add_store() {
    CLI::App* app = app_.add_subcommand("store", "Look after the store")->require_subcommand(1);
    CLI::App* check = app->add_subcommand("check", "Verify everything; exit status 1 when something is wrong");
    common(check, *on<CommonArgs>(check, store_check_verb));
  }

  void add_run() {
    run_ = app_.add_subcommand("run", "Run a command in a sandbox on an environment");
    auto args = on<RunArgs>(run_, [this](const RunArgs& parsed) {
      RunArgs complete = parsed;
      complete.command = command_;
      return run_verb(complete);
    });
    run_->add_option("--cpus", args->cpus, "CPU time, in processors: 0.5, 2")->check(valid("NUMBER", parse_cpus));
    run_->add_option("-m,--memory", args->memory, "Memory: 512M, 4G")->check(valid("SIZE", parse_memory_limit));
    run_->add_option("--pids", args->pids, "Processes and threads [4096]")->check(count_of(1, kMostProcesses));
    run_->add_option("--shm-size", args->shm_size, "Size of /dev/shm [64M]")->check(valid("SIZE", parse_some_bytes));
    run_->add_option("-e,--env", args->variables, "NAME=VALUE, or NAME to pass ours on")
        ->expected(1)
        ->take_all()
        ->check(valid("", check_variable));
    run_->add_option("-v,--volume", args->volumes, "SOURCE:/TARGET[:ro]")
        ->expected(1)
        ->take_all()
        ->check(valid("", parse_volume));
    run_->add_option("-w,--workdir", args->workdir, "Working directory");
    run_->add_option("-u,--user", args->user, "NAME or UID, with :GROUP or :GID");
    run_->add_option("--hostname", args->hostname, "Host name [the sandbox's id]");
    run_->add_option("--timeout", args->timeout, "End the command after 30s, 5m, 2h")
        ->check(valid("DURATION", parse_some_time));
    run_->add_option("--network", args->network, "none or host [none]")->check(CLI::IsMember({"none", "host"}));
    add_rootfs_mode(run_, args->rootfs_mode);
    run_->add_option("-n,--name", args->name, "Name of the sandbox");
    run_->add_flag("--keep", args->keep, "Keep what the command wrote, until `dsec rm`");
    run_->add_flag("-t,--tty", args->tty, "Give the command a terminal");
    run_->add_flag("--record", args->record, "Record what the command reads, to be fetched ahead for the next ones");
    add_eager(run_, args->eager);
    run_->add_option("--json-file", args->json_file, "Write the record of the run to a file");
    run_->add_option("env", args->env, "NAME[:TAG] or digest, then the command")->required();
    common(run_, args->common, "Print the record of the run as the last line of standard error");
    run_->footer(kRunFooter);
  }

  void add_sandboxes() {
    CLI::App* ps = app_.add_subcommand("ps", "List sandboxes");
    common(ps, *on<CommonArgs>(ps, ps_verb));
    CLI::App* rm = app_.add_subcommand("rm", "Remove kept sandboxes; with --force running ones too");
    auto args = on<RemoveArgs>(rm, rm_verb);
    rm->add_option("sandbox", args->names, "Id or name")->required();
    rm->add_flag("-f,--force", args->force, "Kill it when it runs");
    common(rm, args->common);
  }

  static void add_eager(CLI::App* app, bool& eager) {
    app->add_flag("--eager", eager, "Fetch the whole environment onto this node first");
  }

  static void add_rootfs_mode(CLI::App* app, std::string& mode) {
    app->add_option("--rootfs-mode", mode,
                    "objects: names and attributes from the kernel, contents from lazyfsd; tree: all from lazyfsd; "
                    "auto: objects where that works [auto]")
        ->check(CLI::IsMember({"auto", "tree", "objects"}));
  }

  void add_mounts() {
    CLI::App* mount = app_.add_subcommand("mount", "Show an environment as a directory (ro, nosuid, nodev)");
    auto args = on<MountArgs>(mount, mount_verb);
    add_rootfs_mode(mount, args->rootfs_mode);
    add_eager(mount, args->eager);
    mount->add_option("env", args->env, "NAME[:TAG] or digest")->required();
    mount->add_option("directory", args->directory, "Existing directory")->required();
    common(mount, args->common);
    CLI::App* umount = app_.add_subcommand("umount", "Undo `dsec mount`");
    auto umount_args = on<MountArgs>(umount, umount_verb);
    umount->add_option("directory", umount_args->directory, "Where it is mounted")->required();
  }

  void add_prefetch() {
    CLI::App* app = app_.add_subcommand("prefetch", "Fetch what runs of an environment will read onto this node");
    auto args = on<PrefetchArgs>(app, prefetch_verb);
    app->add_flag("--all", args->all, "All of it, not only what a recorded run read");
    app->add_option("env", args->env, "NAME[:TAG] or digest")->required();
    common(app, args->common, "Print progress and the outcome as JSON");
  }

  void add_fs() {
    CLI::App* app = app_.add_subcommand("fs", "The file system daemon of a store")->require_subcommand(1);
    CLI::App* status = app->add_subcommand("status", "What it shows, for whom, and what it fetched");
    common(status, *on<CommonArgs>(status, fs_status_verb));
    add_fs_insight(app);
    CLI::App* upgrade = app->add_subcommand("upgrade", "Replace it by the program as installed now; readers wait");
    common(upgrade, *on<CommonArgs>(upgrade, fs_upgrade_verb));
    CLI::App* stop = app->add_subcommand("stop", "Unmount and end it");
    auto args = on<StopArgs>(stop, fs_stop_verb);
    stop->add_flag("-f,--force", args->force, "Although environments are in use");
    common(stop, args->common);
  }

  void add_fs_insight(CLI::App* app) {
    static constexpr const char* kEnv = "NAME[:TAG] or digest";
    CLI::App* stats =
        app->add_subcommand("stats", "Requests, latencies, what came from where, caches; all of it in JSON");
    auto stats_args = on<EnvArgs>(stats, fs_stats_verb);
    stats->add_option("env", stats_args->env, kEnv);
    common(stats, stats_args->common);
    CLI::App* inflight = app->add_subcommand("inflight", "Requests that wait for the store now");
    common(inflight, *on<CommonArgs>(inflight, fs_inflight_verb));
    CLI::App* top = app->add_subcommand("top", "Rates, every second until Ctrl-C");
    auto top_args = on<TopArgs>(top, fs_top_verb);
    top->add_option("-n,--iterations", top_args->iterations, "End after so many")->check(count_of(1, kMostIterations));
    common(top, top_args->common, "Print one JSON document a line");
    CLI::App* trace = app->add_subcommand("trace", "Requests as they are answered, until Ctrl-C");
    auto trace_args = on<EnvArgs>(trace, fs_trace_verb);
    trace->add_option("env", trace_args->env, kEnv);
    common(trace, trace_args->common, "Print one JSON document a line");
    CLI::App* info = app->add_subcommand("info", "Where the bytes of a file of an environment are");
    auto info_args = on<InfoArgs>(info, fs_info_verb);
    info->add_option("path", info_args->path, "In a mount of an environment")->required();
    info->add_flag("--json", info_args->common.json, "Print one JSON document");
    add_fs_evict(app);
  }

  void add_fs_evict(CLI::App* app) {
    CLI::App* evict = app->add_subcommand("evict", "Empty the node cache");
    auto args = on<EvictArgs>(evict, fs_evict_verb);
    CLI::Option* env =
        evict->add_option("env", args->env, "Only what this one has (NAME[:TAG] or digest); others may have it, too");
    CLI::Option* all = evict->add_flag("--all", args->all, "Chunks in memory too");
    evict
        ->add_option("--bytes", args->bytes, "About so much of it, of all environments, the least used first: 512M, 4G")
        ->check(valid("SIZE", parse_some_bytes))
        ->excludes(all)
        ->excludes(env);
    common(evict, args->common);
  }

  void add_doctor() {
    CLI::App* app = app_.add_subcommand("doctor", "Tell what this machine can do, what is missing and what follows");
    common(app, *on<CommonArgs>(app, doctor_verb));
  }

  // Says which word is no verb, if that is where one has to be.
  [[nodiscard]] bool is_misspelled(const std::vector<std::string>& arguments) const {
    const CLI::App* group = &app_;
    for (const std::string& word : arguments) {
      const auto verbs = group->get_subcommands([](const CLI::App*) { return true; });
      if (verbs.empty() || starts_with(word, "-")) return false;
      const auto found = std::find_if(verbs.begin(), verbs.end(), [&](auto* verb) { return verb->check_name(word); });
      if (found == verbs.end()) {
        say_unknown(*group, word, verbs);
        return true;
      }
      group = *found;
    }
    return false;
  }

  static void say_unknown(const CLI::App& group, const std::string& word, const std::vector<const CLI::App*>& verbs) {
    std::vector<std::string> names;
    for (const CLI::App* verb : verbs) names.push_back(verb->get_name());
    const std::string_view near = nearest(word, std::vector<std::string_view>(names.begin(), names.end()));
    const std::string hint =
        near.empty() ? fmt::format("verbs: {}", fmt::join(names, ", ")) : fmt::format("did you mean \"{}\"?", near);
    const CLI::App* parent = group.get_parent();
    fmt::print(stderr, "{}{}: unknown verb \"{}\"; {}\nRun with --help for more information.\n",
               parent != nullptr ? parent->get_name() + " " : "", group.get_name(), escaped(word), hint);
  }

  // Everything after the environment's name is the command's, also what looks like an option of ours.
  void split_command(std::vector<std::string>& arguments) {
    if (arguments.empty() || arguments[0] != "run") return;
    std::size_t i = 1;
    while (i < arguments.size() && arguments[i].size() > 1 && arguments[i][0] == '-' && arguments[i] != "--") {
      i += takes_next(arguments[i]) ? 2 : 1;
    }
    if (i < arguments.size() && arguments[i] == "--") ++i;
    if (i >= arguments.size()) return;
    std::size_t first = i + 1;
    if (first < arguments.size() && arguments[first] == "--") ++first;
    command_.assign(arguments.begin() + static_cast<std::ptrdiff_t>(std::min(first, arguments.size())),
                    arguments.end());
    arguments.resize(i + 1);
  }

  [[nodiscard]] bool takes_next(const std::string& argument) const {
    const bool is_long = argument[1] == '-';
    if (is_long && argument.find('=') != std::string::npos) return false;
    const std::string name = is_long ? argument : argument.substr(0, 2);
    const CLI::Option* option = run_->get_option_no_throw(name);
    if (option == nullptr || option->get_items_expected_max() == 0) return false;
    return is_long || argument.size() == 2;  // "-e" takes the next, "-eA=1" holds its value
  }

  CLI::App app_{"Sandboxes on lazily loaded, composable environments", "dsec"};
  CLI::App* run_ = nullptr;
  std::vector<std::string> command_;
  std::function<Result<int>()> chosen_;
};

}  // namespace

Action parse_command_line(int argc, char** argv) {
  // Lives until the verb has run: its callbacks point into it.
  static Parser* const parser = std::make_unique<Parser>().release();
  return parser->parse(argc, argv);
}

}  // namespace dsec::cli
