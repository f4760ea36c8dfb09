// Generated from the OpenAPI document; do not edit. Update it with
// `UPDATE_TYPES=1 cargo test -p towpath-gateway typescript`.

/** What an agent offers. */
export interface Abilities {
  commands: SlashCommand[];
  models: ModelChoice[];
}

/** Who did something, and from where. */
export interface Actor {
  name: string;
  /** `terminal`, `browser`, `telegram`, `api` or `rule`. */
  via: string;
}

/** An agent that sessions can be driven with. */
export interface Agent {
  /** As `#rrggbb`. */
  color?: string | null;
  /** Whether new sessions get it if none is chosen. */
  default: boolean;
  /** How to install it, as a command. */
  install?: string | null;
  installed: boolean;
  /** What it is chosen by. */
  name: string;
  protocol: AgentProtocol;
  /** How to sign in. */
  sign_in?: string | null;
  /** For people. */
  title: string;
  /** Only if it was asked for, and the program says it. */
  version?: string | null;
}

/** What files of the project and of the user add to the CLI. Nothing here says whether it uses them. */
export interface AgentFiles {
  agents: NamedFile[];
  hooks: HookFile[];
  mcp_servers: NamedFile[];
  /** Files that could not be read, with the reason. */
  problems: string[];
  skills: NamedFile[];
}

/** What an agent says about itself. All lists are empty before it started for the first time. */
export interface AgentInfo {
  /** Sub-agents that the model may start. */
  agents: NameList;
  /** Where the API key comes from: `ANTHROPIC_API_KEY`, `none`, …. */
  api_key_source?: string | null;
  /** Whether it says that a prompt can join a running turn. */
  can_steer: boolean;
  /** Slash commands, without the slash. */
  commands: NameList;
  /** The working directory. */
  cwd?: string | null;
  efforts?: AgentMenu | null;
  mcp_servers: McpServerList;
  /** The permission mode. */
  mode?: string | null;
  model?: string | null;
  models?: AgentMenu | null;
  modes?: AgentMenu | null;
  /** Its name, as it writes it itself; Claude Code does not. */
  name?: string | null;
  /** Whatever else can be chosen. */
  options: AgentMenu[];
  output_style?: string | null;
  plugins: NameList;
  skills: NameList;
  /** Its name for people. */
  title?: string | null;
  tools: NameList;
  /** The version of the CLI. */
  version?: string | null;
}

/** Something that can be chosen in a running session. */
export interface AgentMenu {
  /** The id of the value in effect. */
  current?: string | null;
  description?: string | null;
  /** The agent's id of it. */
  id: string;
  name: string;
  values: MenuValue[];
}

/** How Towpath speaks with an agent. */
export type AgentProtocol = "stream-json" | "acp";

/** The agents that sessions can be driven with. */
export interface AgentsResponse {
  agents: Agent[];
}

/** An answer to a request. */
export interface AnswerRequest {
  /** Answers by the text of the question. */
  answers?: Record<string, string> | null;
  /** The id of one of the choices that the agent offered. Nothing else is given then. */
  choice?: string | null;
  decision?: Decision | null;
  /** Whether a denial also ends the turn. */
  interrupt?: boolean;
  /** The reason for a denial, which the agent is told. */
  message?: string | null;
  /** The permission mode to continue in when a plan is approved. */
  mode?: string | null;
  remember?: RememberRequest | null;
  /** The input the tool gets instead. */
  updated_input?: Record<string, unknown> | null;
}

export interface AnswerResponse {
  outcome: Outcome;
}

/** What a page needs to know of a call beside its element. */
export interface Call {
  /** What the tool does: `read`, `edit`, `run`, …. */
  action: string;
  ended?: number | null;
  /** How many images its result has. */
  images: number;
  /** The request it waits for, or waited for. */
  request?: string | null;
  /** The entry of the journal that has them. */
  seq?: number | null;
  started?: number | null;
  state: CallState;
  /** What it does it to. */
  target: string;
  /** The tool, as the protocol spells it. */
  tool: string;
}

/** The state of a call. */
export type CallState = "writing" | "waiting" | "running" | "done" | "failed" | "denied" | "unanswered";

export interface ChangeSessionRequest {
  /** Whether to list it only if someone asks for it. */
  archived?: boolean | null;
  /** Whether the mode `bypassPermissions` is really meant. Without it the answer is the problem `needs-confirmation`, whose `detail` is to be shown to the user. */
  confirm?: boolean;
  /** Options to change. Those the agent cannot be told restart it before its next turn. */
  options?: OptionValues;
  /** Whether to list it before all others. */
  pinned?: boolean | null;
  title?: string | null;
}

/** A choice that the agent offers. */
export interface Choice {
  id: string;
  kind: ChoiceKind;
  /** In the agent's words. It says for how long the choice counts. */
  name: string;
}

/** What a choice means. */
export type ChoiceKind = "allow_once" | "allow_always" | "reject_once" | "reject_always";

/** What a client may send. */
export type ClientFrame = { frame: "snapshot" } | { frame: "visibility"; visible: boolean };

/** How changes are committed. */
export interface CommitConfig {
  /** As `Name <address>`. */
  author?: string | null;
  /** A branch for the session, with the placeholder `{session}`. */
  branch?: string | null;
  every?: Trigger;
  /** With the placeholders `{summary}`, `{prompt}`, `{session}`, `{files}`, `{tool}` and `{count}`. */
  message?: string | null;
  trailers?: string[] | null;
  /** A directory below which the session gets its own working tree. */
  worktree?: string | null;
}

/** What a client shows and offers when it asks a user. */
export interface Consent {
  /** What must be shown in full before *Allow* can be pressed. */
  disclosures: Disclosure[];
  /** The modes to continue in when a plan is approved, the suggested one first. */
  modes: Mode[];
  /** The rules that *Always* offers, the narrowest first. */
  rules: Rule[];
}

export interface CreateDirectoryRequest {
  /** Relative to the session's directory. */
  path: string;
}

/** A new session. Every option is a field too. */
export type CreateSessionRequest = OptionValues & { cwd: string; fork?: boolean; id?: string | null; pool?: string | null; profile?: string | null; prompt?: FirstPrompt | null; resume?: string | null; title?: string | null; watch?: WatchSetting | null; worker?: string | null; worktree?: boolean };

export interface CreateSessionResponse {
  id: string;
}

export interface CreateTokenRequest {
  /** Letters, digits, `-`, `_` and `.`. */
  name: string;
  role: Role;
  /** It may also have a shell. Such a token needs the role `drive` or `admin`. */
  shell?: boolean;
}

/** A new token with its secret, which is not shown again. */
export interface CreateTokenResponse {
  name: string;
  /** A picture (SVG) of the sign-in link for the address that the page was opened with. None if other devices cannot reach that address, or if the client is no page. */
  qr?: string | null;
  token: string;
}

export type CursorShape = "block" | "underline" | "beam";

export type Decision = "allow" | "deny";

/** What is done with changed files unless a session has a configuration of its own. */
export interface DefaultWatchResponse {
  default?: WatchConfig | null;
}

/** When a prompt goes to the agent. */
export type Delivery = "queue" | "steer";

/** Directories in which a session may start. */
export interface DirectoriesResponse {
  directories: DirectoryEntry[];
  /** Its parent, unless it is a root. */
  parent?: string | null;
  /** The directory that is listed. */
  under?: string | null;
}

/** A directory in which a session may start. */
export interface DirectoryEntry {
  name: string;
  path: string;
  /** Whether it is a git repository. */
  repository: boolean;
}

/** A fact about a call that is shown in full. */
export interface Disclosure {
  label: string;
  text: string;
}

export interface DistrustRequest {
  /** A directory of the project. */
  cwd: string;
}

export interface EditPromptRequest {
  delivery?: Delivery | null;
  /** The new text. */
  text?: string | null;
}

/** A file that a turn changed. */
export interface EditedFile {
  /** How often it was changed. */
  edits: number;
  path: string;
}

/** The difference between a file and another text. */
export interface FileComparison {
  added: number;
  /** From the file to the text, as HTML. */
  html: string;
  removed: number;
  /** Identifies the content of the file, for `If-Match`; `null` if it is gone. */
  tag?: string | null;
}

/** A file a turn changed. */
export interface FileDiff {
  /** Lines added. */
  added: number;
  /** How often it was changed. */
  edits: number;
  /** The diffs in order, as far as they are not too long. */
  html: string;
  /** As the model wrote it. */
  path: string;
  /** Lines removed. */
  removed: number;
}

/** A file or directory. */
export interface FileEntry {
  /** Whether git ignores it. */
  ignored: boolean;
  kind: FileEntryKind;
  /** Whether it is a symbolic link; the kind is that of what it leads to. */
  link: boolean;
  /** When it was last written, in milliseconds since 1970. */
  modified: number;
  /** Bytes that are not UTF-8 are `\xNN`, and a backslash is `\\`. */
  name: string;
  /** In bytes. */
  size: number;
}

export type FileEntryKind = "directory" | "file" | "other";

/** A part of the content of a directory: directories first, then by name. */
export interface FileList {
  entries: FileEntry[];
  /** Where the next page starts; `null` if there is none. */
  more?: string | null;
  /** How many there are in all, as far as they were counted. */
  total: number;
}

/** Files in a working directory. */
export interface FileSearchResponse {
  /** Relative to the working directory, the best match first. */
  paths: string[];
}

/** A file as it is shown. */
export interface FileView {
  /** Whether there is a preview. */
  has_preview: boolean;
  kind: FileViewKind;
  line_ending: LineEndingName;
  /** The lines as HTML. */
  lines: string[];
  /** When it was last written, in milliseconds since 1970. */
  modified: number;
  /** The offset of the next part; `null` at the end. */
  next?: number | null;
  /** The whole text as HTML, if a preview was asked for and is possible. */
  preview?: string | null;
  /** Why it cannot be edited; `null` if it can. */
  read_only?: string | null;
  /** In bytes. */
  size: number;
  /** Identifies the content, for `If-Match`. */
  tag: string;
}

export type FileViewKind = "text" | "image" | "pdf" | "binary";

/** A first prompt: its text, or a whole prompt. */
export type FirstPrompt = string | PromptRequest;

export interface ForkRequest {
  /** The title of the original session if there is none. */
  title?: string | null;
}

/** What a client that follows a session is sent. */
export type Frame = Snapshot & { frame: "snapshot" } | UpdateFrame & { frame: "update" } | Heartbeat & { frame: "heartbeat" } | { frame: "deleted" } | { detail: string; frame: "failed" };

/** A branch, here or at a remote repository. */
export interface GitBranch {
  /** When its last commit was made, in milliseconds since 1970. */
  at: number;
  /** Whether a working tree has it checked out. */
  checked_out: boolean;
  current: boolean;
  name: string;
  remote: boolean;
  subject: string;
  upstream?: string | null;
}

export interface GitBranches {
  branches: GitBranch[];
}

/** What git said about a change, and the state after it. */
export interface GitChange {
  said: string;
  status: GitStatus;
}

/** Whole files, or one hunk. */
export interface GitChangeRequest {
  hunk?: GitHunkRequest | null;
  /** The keys of files. */
  paths?: string[];
}

/** A commit. */
export interface GitCommit {
  /** When it was written, in milliseconds since 1970. */
  at: number;
  author: string;
  /** The rest of its message. */
  body: string;
  id: string;
  /** Branches and tags that point to it. */
  names: string[];
  parents: string[];
  /** The first line of its message. */
  subject: string;
}

/** A commit, and what it changed. */
export interface GitCommitDetails {
  commit: GitCommit;
  files: GitCommitFile[];
  /** How many files it changed. */
  total: number;
}

/** A file that a commit changed. */
export interface GitCommitFile {
  from?: string | null;
  key: string;
  path: string;
  state: GitFileState;
}

export interface GitCommitRequest {
  message: string;
}

/** What has changed in a file. */
export interface GitDiff {
  /** Whether the file is new. */
  added: boolean;
  binary: boolean;
  /** Whether the diff was too long to be read to its end. */
  cut: boolean;
  /** Whether the file is gone. */
  deleted: boolean;
  /** How many hunks are left out, because the diff is too long. */
  hidden_hunks: number;
  hunks: GitHunk[];
  /** Lines that were added and removed, as far as the diff was read. */
  lines_added: number;
  lines_removed: number;
  new_mode?: string | null;
  /** The mode before, if it has changed. */
  old_mode?: string | null;
}

/** A file that differs from the last commit. */
export interface GitFile {
  /** The key it had before it was renamed or copied. */
  from?: string | null;
  /** Names the file in other requests. */
  key: string;
  /** Its path to show, relative to the top. */
  path: string;
  staged?: GitFileState | null;
  submodule: boolean;
  unstaged?: GitFileState | null;
}

/** How a file differs. */
export type GitFileState = "modified" | "added" | "deleted" | "renamed" | "copied" | "type_changed" | "untracked" | "conflicted";

/** Adjacent lines that differ. */
export interface GitHunk {
  added: number;
  /** What it is in: a function, for example. */
  heading: string;
  /** Its first lines. */
  html: string;
  /** Names the hunk in other requests; none if only the whole file can be changed. */
  id?: string | null;
  new_start: number;
  old_start: number;
  removed: number;
}

/** A hunk of a file, as its diff names it. */
export interface GitHunkRequest {
  from?: string | null;
  id: string;
  /** The key of the file. */
  path: string;
}

/** Commits, the newest first. */
export interface GitLog {
  commits: GitCommit[];
  /** Whether there are older ones. */
  more: boolean;
}

/** The state of a repository. */
export interface GitStatus {
  /** Commits that the upstream branch does not have. */
  ahead: number;
  /** Commits that only the upstream branch has. */
  behind: number;
  /** None if `HEAD` is detached. */
  branch?: string | null;
  /** The id of the last commit; none in an empty repository. */
  commit?: string | null;
  /** The first changed files. */
  files: GitFile[];
  /** A message for the next commit: what the last turn was asked to do. */
  message?: string | null;
  /** The top directory of the working tree. */
  top: string;
  /** How many changed files there are, as far as they were counted. */
  total: number;
  upstream?: string | null;
  worktree?: GitWorktree | null;
}

export interface GitSwitchRequest {
  branch: string;
  /** Whether it is a new branch, at the current commit. */
  create?: boolean;
}

/** A working tree that is not the main one. */
export interface GitWorktree {
  branch?: string | null;
  /** The main working tree. */
  main: string;
  path: string;
}

/** A permission for more than one call. */
export interface Grant {
  by: Actor;
  created: number;
  /** The directory it applies in, for every session there. */
  directory?: string | null;
  id: string;
  /** What it allows, for a person. The pattern is shown behind it. */
  label: string;
  /** The command, file, directory, address, host or input that it is about; none if it covers all calls of the tool. It is a text and never a pattern with wildcards. */
  pattern?: string | null;
  /** The session it applies in. */
  session?: string | null;
  tool: string;
  /** When it expires, in milliseconds since 1970; never if there is none. */
  until?: number | null;
}

/** The sessions in which a grant applies. */
export type GrantScope = "session" | "directory";

/** What is allowed without asking. */
export interface GrantsResponse {
  grants: Grant[];
}

export interface HandoverRequest {
  /** The name of the agent that continues. */
  agent: string;
  /** What it is asked to do. The summary comes before it. */
  prompt?: string | null;
}

/** What a session is, as far as its agent has reported it. */
export interface Head {
  /** The working directory. */
  cwd?: string | null;
  effort?: string | null;
  /** The permission mode. */
  mode?: string | null;
  model?: string | null;
  /** The CLI's session id. */
  session?: string | null;
  /** A next prompt that the agent suggests. */
  suggestion?: string | null;
  title?: string | null;
  /** The version of the CLI. */
  version?: string | null;
}

export interface HealthResponse {
  /** `ok`. */
  status: string;
  version: string;
}

export interface Heartbeat {
  /** The server's time. */
  at: number;
}

/** A command that the CLI runs at some event. */
export interface HookFile {
  command: string;
  /** `PreToolUse`, `Stop`, …. */
  event: string;
  /** Where it is written. */
  file: string;
  /** For which tools, if not for all. */
  matcher?: string | null;
}

/** Programs to run on changes, each a shell command line. */
export interface HooksConfig {
  /** Whether to run GitButler's hooks. */
  gitbutler?: boolean;
  /** Runs after a file has changed. */
  post?: string | null;
  /** Runs before a file changes. */
  pre?: string | null;
  /** Runs at the end of a turn. */
  stop?: string | null;
}

export interface ImageRequest {
  /** In base64. */
  data: string;
  /** `image/png`, `image/jpeg`, `image/gif` or `image/webp`. */
  media_type: string;
}

export interface IndexProgress {
  done: number;
  total: number;
}

export interface InterruptRequest {
  /** Whether queued prompts wait until the queue is resumed. A queue that is to be cleared is not held. */
  hold_queue?: boolean;
  queue?: QueueAction;
}

/** One thing in a conversation, ready to be put on a page. */
export interface Item {
  /** When it was added, in milliseconds since 1970. */
  at?: number | null;
  call?: Call | null;
  /** The first entry of the journal that belongs to it; `rev` is the last. */
  first: number;
  /** It is about the agent's process and the like, and worth hiding by default. */
  housekeeping?: boolean;
  /** The element that shows it; empty if there is nothing to show. */
  html: string;
  /** Stable for as long as the session exists. */
  id: string;
  kind: ItemKind;
  /** It is still being written. */
  open?: boolean;
  /** The item of the call whose sub-agent wrote or did it. */
  parent?: string | null;
  /** Its place in the conversation: compare the first number, then the second. */
  position: [number, number];
  prompt?: Prompt | null;
  /** The revision of its last change. */
  rev: number;
  /** The length of the HTML in its `.stable`, in UTF-16 code units, while it is being written. */
  stable_length?: number | null;
  /** The element shows only a part. */
  truncated?: boolean;
  turn: number;
}

export type ItemKind = "prompt" | "text" | "thinking" | "call" | "hook" | "compaction" | "retry" | "failure" | "interruption" | "notice" | "agent" | "reset" | "media" | "raw";

/** Items, in order. */
export interface ItemPage {
  /** Where to continue if there are no items here although there are older ones. */
  before?: string | null;
  items: Item[];
  /** There are older items. */
  more: boolean;
  /** The turns they belong to. */
  turns: Turn[];
}

/** Resolved requests, newest first. */
export interface LedgerResponse {
  entries: RequestEntry[];
}

/** An entry of the journal. */
export interface Line {
  /** When it was written, in milliseconds since 1970. */
  at: number;
  /** Its bytes in base64, if they are not UTF-8. */
  base64?: string | null;
  /** How many bytes it has, if it is omitted. */
  bytes?: number | null;
  /** The exact text of the line. */
  line?: string | null;
  /** The line is too long to be given here; it can be requested by itself. */
  omitted?: boolean;
  /** Who wrote it: `agent` or `towpath`. */
  origin: string;
  /** The number of the entry. */
  seq: number;
}

/** How the lines of a text end. */
export type LineEndingName = "lf" | "crlf" | "mixed";

/** Entries of the journal. */
export interface LinePageResponse {
  lines: Line[];
  /** There are more entries after these. */
  more: boolean;
}

export interface McpServer {
  name: string;
  /** As the CLI spells it: `connected`, `failed`, `needs-auth`, `pending`, …. */
  status: string;
}

/** The first MCP servers, at most 2000. */
export interface McpServerList {
  items: McpServer[];
  /** How many there are in all. */
  total: number;
}

/** The client that is signed in, and the server. */
export interface Me {
  /** Whether the agent is the built-in one. */
  demo: boolean;
  /** Whether other machines drive the sessions, which `GET /workers` lists. */
  fleet: boolean;
  /** All permission modes, the most careful ones first. */
  modes: Mode[];
  /** The name of the token, or the user name from the proxy. */
  name: string;
  push?: MePush | null;
  role: Role;
  /** Where sessions may work. */
  roots: string[];
  /** Whether it may have a shell here: by its role or its token, and terminals are not turned off. */
  shell: boolean;
  /** The version of the server. */
  version: string;
  /** `browser` or `api`. */
  via: string;
}

/** How this server is known to push services. */
export interface MePush {
  /** The key that a browser subscribes with (`applicationServerKey`), in URL-safe base64. */
  key: string;
}

/** A value that can be chosen. */
export interface MenuValue {
  description?: string | null;
  id: string;
  name: string;
}

/** A permission mode. */
export interface Mode {
  description: string;
  /** As the CLI spells it. */
  id: string;
  label: string;
  /** A keyboard shortcut may switch to it. The others are only chosen from a menu. */
  shortcut: boolean;
}

export interface ModelChoice {
  description: string;
  name: string;
  /** The id to select it by. */
  value: string;
}

export type MouseReports = "none" | "clicks" | "drags" | "movement";

export interface MovePromptRequest {
  /** The prompt to move it in front of; without one it moves to the end. */
  before?: string | null;
}

export interface MoveRequest {
  /** The name of the worker that takes the session over. */
  to: string;
}

/** The first names of a list, at most 2000. */
export interface NameList {
  items: string[];
  /** How many there are in all. */
  total: number;
}

/** A sub-agent, a skill or an MCP server. */
export interface NamedFile {
  /** What it says about itself; of a server, how it is reached. */
  description?: string | null;
  /** Where it is written. */
  file: string;
  name: string;
}

/** A prompt that is not done yet. */
export interface OpenPrompt {
  by: Actor;
  created: number;
  delivery: Delivery;
  id: string;
  state: PromptState;
  text: string;
  turn?: number | null;
}

/** The description of an option. */
export interface OptionResponse {
  choices?: string[] | null;
  /** What a switch is if it is not set. */
  default?: boolean | null;
  /** When a change takes effect: `live`, `restart` (before the next turn) or `creation` (only for new sessions). */
  effect: string;
  /** The argument of `towpath run`, without dashes. */
  flag: string;
  help: string;
  /** `text`, `multiline`, `choice`, `agent`, `integer`, `dollars`, `duration`, `switch`, `list`, `directories`, `variables` or `mcp`. */
  kind: string;
  max?: number | null;
  min?: number | null;
  name: string;
  /** The role that may set it: `drive` or `admin`. */
  role: string;
  /** Whether this client may set it. */
  settable: boolean;
}

/** Values of options by name; `null` is the default. */
export interface OptionValues {
  /** Agent that works in the session, by name: `towpath agents` lists them */
  agent?: string | null;
  /** Tools to allow without asking: `Read`, `Bash(git:*)` */
  allowed_tools?: string[] | null;
  /** Text to append to the system prompt */
  append_system_prompt?: string | null;
  /** Cost of the session, in dollars, from which on queued prompts wait until someone allows the same amount again */
  budget_usd?: number | null;
  /** Continue a turn that was cut short because the agent died */
  continue_after_cut?: boolean | null;
  /** Delete the session from Towpath when it is closed or its agent was stopped because it was idle */
  delete_when_ended?: boolean | null;
  /** Tools to forbid */
  disallowed_tools?: string[] | null;
  /** Reasoning effort; which levels there are depends on the model */
  effort?: string | null;
  /** Environment variables for the agent, as NAME=VALUE */
  environment?: Record<string, string> | null;
  /** Additional directories the agent may work in */
  extra_directories?: string[] | null;
  /** Model to use while the first one is overloaded */
  fallback_model?: string | null;
  /** Time after which an idle agent is stopped, as `30m` or `never`; the next prompt starts it again */
  idle_timeout?: string | null;
  /** Maximum cost of an agent process, in dollars */
  max_budget_usd?: number | null;
  /** Maximum number of requests to the model per turn */
  max_turns?: number | null;
  /** MCP servers, as JSON or a JSON file */
  mcp_config?: Record<string, unknown> | string | null;
  /** Permission mode: what the agent may do without asking */
  mode?: string | null;
  /** Model to use, by name or alias */
  model?: string | null;
  /** Whether the CLI saves the conversation; without that, an agent that was stopped starts again without what was said before */
  session_persistence?: boolean | null;
}

/** What a session can be given. */
export interface OptionsResponse {
  /** Whether sessions may be given the mode `bypassPermissions`. */
  bypass_allowed: boolean;
  options: OptionResponse[];
  /** The profiles of the server's owner. */
  profiles: ProfileResponse[];
  /** Why the profiles could not be read. */
  profiles_error?: string | null;
  project?: ProjectResponse | null;
  /** Why that file is not used, even if it is trusted. */
  project_error?: string | null;
}

/** How a request can be resolved. */
export type Outcome = "allowed" | "allowed_and_remembered" | "denied" | "expired" | "withdrawn";

/** The prompts of a session, in order. */
export interface Outline {
  prompts: OutlinePrompt[];
  /** How many there are in all; only the newest ones are listed. */
  total: number;
}

/** A prompt of a person. */
export interface OutlinePrompt {
  /** In milliseconds since 1970, if known. */
  at?: number | null;
  /** The place of its item in the conversation. */
  position: [number, number];
  /** Where its text begins, as one line. */
  text: string;
  turn: number;
}

/** A working tree, and what would be lost with it. */
export interface OwnWorktree {
  branch: string;
  /** Commits that no other branch has. */
  commits: number;
  /** Files that are not committed. */
  files: number;
  path: string;
}

/** A change of a conversation. All but `append` carry the whole new value. */
export type Patch = { item: Item; patch: "item" } | { html: string; id: string; offset: number; patch: "append"; rev: number; tail: string } | { id: string; patch: "removed" } | { patch: "turn"; turn: Turn } | { head: Head; patch: "head" } | { patch: "status"; status: Status } | { patch: "queue"; queue: QueuedPrompt[] } | { patch: "requests"; requests: Request[] } | { patch: "todos"; todos: Todo[] } | { patch: "usage"; usage: Usage };

/** How much of the subscription's limit is used. */
export interface PlanLimit {
  /** In seconds since 1970. */
  resets_at?: number | null;
  status?: string | null;
  /** From 0 to 1. */
  used?: number | null;
  window?: string | null;
}

/** A window of a subscription. */
export type PlanWindow = PlanLimit & { at: number; session: string; title?: string | null };

/** Why a request failed. */
export interface Problem {
  /** What happened in this case. */
  detail: string;
  resolution?: Resolution | null;
  state?: PromptState | null;
  /** The HTTP status. */
  status: number;
  /** The kind of problem, in words. */
  title: string;
  /** The kind of problem, as a URI that never changes. */
  type: string;
}

/** A named set of options. */
export interface ProfileResponse {
  /** Whether sessions in the directory get it if they ask for no other. */
  default: boolean;
  description?: string | null;
  name: string;
  /** Secrets are masked unless the client is an admin. */
  options: OptionValues;
}

/** A directory in which sessions work. */
export interface ProjectDirectory {
  /** The branch that is checked out. */
  branch?: string | null;
  /** How many files and directories differ from the last commit. */
  changes: number;
  /** The directory, as sessions have it. */
  cwd: string;
  /** The name of the project. */
  name: string;
  /** What is the same for all directories of a repository, with all its working trees. */
  project: string;
  /** Whether it is in a git repository. */
  repository: boolean;
  /** Whether it is in a working tree that is not the main one. */
  worktree: boolean;
}

/** The `towpath.toml` of a project. */
export interface ProjectResponse {
  /** The SHA-256 of its content, to be sent back to trust it. */
  digest: string;
  path: string;
  profiles: ProfileResponse[];
  /** Its whole text. Control characters and others that could hide a part of it are written as `\u{…}`, and long runs of blank lines and spaces are counted. */
  text: string;
  /** Whether someone has trusted this content. */
  trusted: boolean;
}

/** The directories of all sessions. */
export interface ProjectsResponse {
  /** Those of the most recently active sessions first. */
  directories: ProjectDirectory[];
}

/** What a page needs to know of a prompt beside its element. */
export interface Prompt {
  author: PromptAuthor;
  by?: Actor | null;
  /** Its id, if its sender gave it one. */
  id?: string | null;
  images: number;
  state: PromptState;
  /** The text; truncated if it is very long. */
  text: string;
}

export type PromptAuthor = "user" | "cli" | "agent";

/** A new prompt. */
export interface PromptRequest {
  delivery?: Delivery;
  /** Made by the sender. A prompt with a known id is not added again. */
  id: string;
  images?: ImageRequest[];
  text?: string;
}

/** The state of a prompt. */
export type PromptState = "queued" | "written" | "accepted" | "done" | "cancelled" | "indeterminate";

/** Prompts that are not done yet. */
export interface PromptsResponse {
  prompts: OpenPrompt[];
}

/** One of the client's own subscriptions. */
export interface PushEndpoint {
  endpoint: string;
}

export interface PushKeys {
  auth: string;
  p256dh: string;
}

/** A subscription as the browser's `PushSubscription` gives it. */
export interface PushSubscription {
  /** The address at the push service: `https`, and on the internet. */
  endpoint: string;
  keys: PushKeys;
}

/** What happens to queued prompts when a turn is interrupted. */
export type QueueAction = "keep" | "clear";

/** A prompt that waits for its turn. */
export interface QueuedPrompt {
  /** When it was sent, in milliseconds since 1970. */
  at?: number | null;
  by?: Actor | null;
  delivery: Delivery;
  id: string;
  /** How many images go with it. */
  images: number;
  state: PromptState;
  text: string;
}

/** A grant to be made. */
export interface RememberRequest {
  /** The id of a rule that was offered with the request. */
  rule: RuleId;
  scope?: GrantScope;
  /** When the grant expires, in milliseconds since 1970; never by default. */
  until?: number | null;
}

export interface RenameFileRequest {
  /** Relative to the session's directory. */
  path: string;
  /** The new path. */
  to: string;
}

/** The repository of a directory. */
export interface Repository {
  /** Nothing if it is in no repository in which sessions may work. */
  branch?: string | null;
  /** Where new working trees of its sessions are made; none if there can be none. */
  worktrees?: string | null;
}

/** A request in a conversation, with all a card needs. */
export type Request = Consent & { action: string; at?: number | null; blocked_path?: string | null; choices: Choice[]; description?: string | null; expires?: number | null; html: string; id: string; input: string; item?: string | null; kind: RequestKind; reason?: string | null; target: string; tool: string };

/** A request of an agent. */
export type RequestEntry = Consent & { choices: Choice[]; expires?: number | null; id: string; input: string; kind: RequestKind; opened: number; resolution?: Resolution | null; session: string; suggestions?: string | null; tool: string };

/** What kind of answer a request needs. */
export type RequestKind = "permission" | "question" | "plan" | "unknown";

/** Requests that wait for an answer. */
export interface RequestsResponse {
  requests: RequestEntry[];
}

/** How a request was resolved. */
export interface Resolution {
  /** In milliseconds since 1970. */
  at: number;
  by?: Actor | null;
  /** The reason that was given. */
  message?: string | null;
  outcome: Outcome;
}

export interface RewindRequest {
  /** Rewinds to the state before this prompt. */
  prompt: string;
  what: RewindScope;
}

/** What a rewind restores. */
export type RewindScope = "files" | "conversation" | "both";

/** What a client may do. Each role includes those before it. */
export type Role = "watch" | "drive" | "admin";

/** A rule that *Always* would remember. */
export interface Rule {
  id: RuleId;
  /** What it allows, for a person. */
  label: string;
  /** The command, file, directory, address, host or input that it is about; none if it covers all calls of the tool. */
  pattern?: string | null;
  /** The tool it covers, or `edits` for all tools that edit files. */
  tool: string;
}

/** The id of a rule. */
export type RuleId = "exact" | "directory" | "host" | "tool";

/** A file that was saved. */
export interface SavedFile {
  /** Identifies the new content, for the next `If-Match`. */
  tag: string;
}

/** A prompt that is sent later. */
export interface Schedule {
  by: Actor;
  created: number;
  id: string;
  /** When it is sent next, in milliseconds since 1970. */
  next: number;
  text: string;
  /** In the same grammar, in full: `in 2h` becomes a time. */
  when: string;
  zone: string;
}

/** A prompt that is to be sent later. */
export interface ScheduleRequest {
  /** Made by the sender. A schedule with a known id is not added again. */
  id: string;
  text: string;
  /** `at 2026-11-17 09:00`, `at 09:00`, `in 2h`, `every 30m`, `every day 09:00`, `weekdays 09:00` or `every monday 09:00`. */
  when: string;
  /** The IANA name of the time zone in which that is meant; `UTC` if there is none. */
  zone?: string | null;
}

/** Prompts that are sent later, by their next time. */
export interface SchedulesResponse {
  schedules: Schedule[];
}

export interface SearchResponse {
  indexing?: IndexProgress | null;
  /** For `after`, if there are more. A page may have fewer results than `limit` although there are more. */
  more?: string | null;
  /** What people said comes before what tools printed; among equals the newest is first. */
  results: SearchResult[];
}

/** A message, or a call of a tool, that contains what was looked for. */
export interface SearchResult {
  /** In milliseconds since 1970. */
  at?: number | null;
  /** The directory of the session. */
  cwd: string;
  /** The last item of the session that is not behind this position, `seq.rank`, is the one that was found. As `before`, it gives a page that ends with that item. */
  position?: string | null;
  role: SearchRole;
  /** The session of this server. */
  session?: string | null;
  /** A part of the text in one line, with what was found marked. It is not HTML. */
  snippet: SnippetPart[];
  title?: string | null;
  /** The session of the CLI, if it is not one of this server. */
  transcript?: string | null;
}

export type SearchRole = "user" | "assistant" | "tool";

export interface SendPromptResponse {
  id: string;
  state: PromptState;
}

/** A session in the list. */
export interface Session {
  /** When it was last active. */
  active: number;
  /** The agent that works in it. */
  agent: SessionAgent;
  /** The agent's own session ids, oldest first. */
  agent_ids: string[];
  /** Whether it is listed only if someone asks for it. */
  archived: boolean;
  /** What a spent budget asks before queued prompts are sent: `$5.02 of $5.00 spent. Go on?`. */
  budget_question?: string | null;
  /** When it was created, in milliseconds since 1970. */
  created: number;
  /** The agent's working directory. */
  cwd: string;
  /** The configured effort. */
  effort?: string | null;
  id: string;
  /** The number of its last entry. */
  last: number;
  /** The configured permission mode. */
  mode?: string | null;
  /** The configured model. */
  model?: string | null;
  /** Whether it is listed before all others. */
  pinned: boolean;
  /** Why it cannot be used right now: its shim does not answer, its worker is away, or its data is damaged. */
  problem?: string | null;
  /** How many requests wait for an answer. */
  requests: number;
  status: SessionStatus;
  tier: SessionTier;
  /** Its title, or the first words of its first prompt. */
  title?: string | null;
  /** The number of its last turn. */
  turn: number;
  watch?: WatchConfig | null;
  /** The machine that drives it; null if it is this one. */
  worker?: string | null;
  /** Whether that machine is not connected. */
  worker_away: boolean;
  /** Since when it is not connected, in milliseconds since 1970; null if that is not known. */
  worker_away_since?: number | null;
}

/** The agent of a session, for lists. */
export interface SessionAgent {
  /** Whether it is driven over the Agent Client Protocol. Such an agent says itself which modes and models it has, and cannot rewind. */
  acp: boolean;
  /** As `#rrggbb`. */
  color?: string | null;
  name: string;
  /** For people. */
  title: string;
}

/** A session with its options. */
export type SessionDetails = Session & { options: OptionValues; restart_pending: boolean };

/** A file a session changed. */
export interface SessionFile {
  /** How often it was changed. */
  edits: number;
  /** As the model wrote it. */
  path: string;
  /** The turns that changed it, in order. */
  turns: number[];
}

/** The files a session changed. */
export interface SessionFilesResponse {
  /** The most recently changed one first. */
  files: SessionFile[];
}

/** What a client that follows the session list is sent. */
export type SessionListFrame = { frame: "sessions"; sessions: Session[] } | { frame: "session"; session: Session } | { frame: "session_deleted"; id: string } | { at: number; frame: "heartbeat" };

/** What a session can be doing. */
export type SessionPhase = { kind: "idle" } | { kind: "starting" } | { kind: "working" } | { kind: "thinking"; tokens?: number | null } | { kind: "writing" } | { item: string; kind: "running"; others: number; target: string; tool: string } | { kind: "waiting"; requests: number } | { attempt?: number | null; delay_ms?: number | null; kind: "retrying"; max_attempts?: number | null } | { kind: "compacting" } | { kind: "interrupting" } | { kind: "stalled"; seconds: number } | { cause: StopCause; kind: "stopped" };

export type SessionStatus = "idle" | "running" | "waiting" | "dead" | "failed";

/** The group of the list that a session is in. */
export type SessionTier = "needs_you" | "running" | "idle";

/** The working tree that was made for a session. */
export interface SessionWorktree {
  worktree?: OwnWorktree | null;
}

/** All sessions. */
export interface SessionsResponse {
  sessions: Session[];
}

/** Settings to change; missing ones stay as they are. */
export interface SettingsRequest {
  /** Options that only this agent has: values by the ids of its menus. */
  agent_options?: Record<string, string>;
  effort?: string | null;
  /** The permission mode, as the CLI spells it. */
  mode?: string | null;
  /** `null` selects the default model. */
  model?: string | null;
  watch?: WatchSetting | null;
}

/** How a shell ended: with a code or by a signal. Neither is known if it could not be waited for. */
export interface ShellExit {
  code?: number | null;
  signal?: string | null;
}

/** The agent does nothing before someone signs in with the agent's own program. */
export interface SignIn {
  /** The ways to sign in that the agent names. */
  methods: string[];
  /** What to do. */
  text: string;
}

export interface SignInRequest {
  /** A name for the browser's device, shown with what it does; by default what its `User-Agent` says. */
  device?: string | null;
  token: string;
}

export interface SlashCommand {
  argument_hint: string;
  description: string;
  /** Without the slash. */
  name: string;
}

/** The newest part of a conversation. */
export interface Snapshot {
  head: Head;
  items: Item[];
  /** There are older items. */
  more: boolean;
  queue: QueuedPrompt[];
  requests: Request[];
  revision: number;
  status: Status;
  todos: Todo[];
  turns: Turn[];
  usage: Usage;
}

export interface SnippetPart {
  match: boolean;
  text: string;
}

/** A budget that is spent, so that queued prompts wait. To resume the queue allows the same amount again. */
export interface SpentBudget {
  /** How many dollars were allowed. */
  limit: number;
  /** Whether it is the budget of the day, for all sessions. */
  of_day: boolean;
  /** What to ask a person: `$5.02 of $5.00 spent. Go on?`. */
  question: string;
  /** Dollars. */
  spent: number;
}

export interface StartTerminalRequest {
  /** The number of a terminal whose shell has ended, which the new one replaces. */
  again?: number | null;
  /** The size of the client that starts it. It has the size of the client that typed last. */
  columns?: number | null;
  rows?: number | null;
}

/** What a session is doing. */
export interface Status {
  budget?: SpentBudget | null;
  /** When the next of them is sent, in milliseconds since 1970. */
  next_schedule?: number | null;
  phase: SessionPhase;
  /** Whether queued prompts wait until the queue is resumed. */
  queue_held: boolean;
  /** How many prompts are sent later. */
  schedules: number;
  sign_in?: SignIn | null;
  /** When the phase started, in milliseconds since 1970. */
  since?: number | null;
  /** When the running turn started. */
  turn_since?: number | null;
}

/** Why there is no agent process. */
export type StopCause = { cause: "not_started"; message: string } | { cause: "not_ready" } | { cause: "exited"; code: number; stderr: string } | { cause: "killed"; signal: number } | { cause: "disobeyed" } | { cause: "parked" } | { cause: "closed" } | { cause: "restarted" } | { cause: "lost" };

/** A terminal of a session. */
export interface Terminal {
  ended?: ShellExit | null;
  /** The number in the session, from 1. */
  number: number;
  /** In milliseconds since 1970. */
  started: number;
  /** What the program in it calls it; may be empty. */
  title: string;
}

/** What a client of a terminal may send. */
export type TerminalClientFrame = { frame: "input"; text: string } | { columns: number; frame: "resize"; rows: number } | { count: number; frame: "scrollback"; from: number };

export type TerminalColor = number | string;

/** From 0, at the top left of the screen. */
export interface TerminalCursor {
  column: number;
  row: number;
  shape: CursorShape;
}

/** A frame about a terminal. */
export type TerminalFrame = { frame: "screen"; lines: TerminalLine[]; screen: TerminalScreen } | { frame: "rows"; lines: TerminalLine[]; screen: TerminalScreen } | { frame: "scrollback"; lines: TerminalLine[]; oldest: number; top: number } | { frame: "terminals"; terminals: Terminal[] } | { exit?: ShellExit | null; frame: "closed" } | { at: number; frame: "heartbeat" };

/** A line. */
export interface TerminalLine {
  number: number;
  runs: TerminalRun[];
  /** The next line continues it. */
  wrapped?: boolean;
}

export interface TerminalList {
  terminals: Terminal[];
}

/** Text in one style. Colors are numbers of the 16 that a theme defines, or `#rrggbb`. */
export interface TerminalRun {
  attributes?: TextAttribute[];
  background?: TerminalColor | null;
  /** How many columns it takes, if a font may draw it wider or narrower than that. */
  cells?: number | null;
  foreground?: TerminalColor | null;
  text: string;
}

/** Everything about a screen except its lines. */
export interface TerminalScreen {
  /** A program uses the whole screen, without scrollback. */
  alternate: boolean;
  /** Arrow keys are sent as `ESC O A` and not as `ESC [ A`. */
  application_cursor: boolean;
  /** What is pasted is sent between `ESC [200~` and `ESC [201~`. */
  bracketed_paste: boolean;
  columns: number;
  cursor?: TerminalCursor | null;
  /** Which events of the mouse are sent, in the SGR form. */
  mouse: MouseReports;
  /** The number of the oldest line of the scrollback. */
  oldest: number;
  rows: number;
  title: string;
  /** The number of the screen's first line. */
  top: number;
}

export type TextAttribute = "bold" | "dim" | "italic" | "underline" | "strikeout" | "inverse";

/** An entry of the agent's to-do list. */
export interface Todo {
  /** The text to show while it is being done. */
  doing?: string | null;
  id?: string | null;
  state: TodoState;
  text: string;
}

export type TodoState = "pending" | "doing" | "done";

/** A token, without its secret. */
export interface Token {
  /** When it was created, in milliseconds since 1970. */
  created: number;
  name: string;
  role: Role;
  /** It may have a shell, although its role alone does not allow that. */
  shell: boolean;
}

export interface TokenCounts {
  cache_read: number;
  cache_write: number;
  input: number;
  output: number;
}

export interface TokensResponse {
  tokens: Token[];
}

/** A session of the CLI. */
export interface Transcript {
  /** The git branch at its end. */
  branch?: string | null;
  /** How many tokens the model read and wrote for its last message. */
  context?: number | null;
  /** Dollars, if the CLI recorded them. */
  cost?: number | null;
  /** The directory in which it began. */
  cwd: string;
  /** The CLI's id of the session. A new session with it as `resume` continues it. */
  id: string;
  /** A CLI outside Towpath seems to use it now. It can only be continued as a copy. */
  in_terminal: boolean;
  /** How many messages it has. Those of a large file are counted in the background. */
  messages?: number | null;
  /** The model that answered last. */
  model?: string | null;
  /** When it was last written to, in milliseconds since 1970. */
  modified: number;
  /** The session of this server that continues it. */
  session?: string | null;
  /** The size of its file in bytes. */
  size: number;
  /** The title that the user or the CLI gave it, or the beginning of its first prompt. */
  title?: string | null;
}

/** A part of a conversation of the CLI. */
export interface TranscriptPage {
  page: ItemPage;
  transcript: Transcript;
}

export interface TranscriptsResponse {
  /** There are more after these. */
  more: boolean;
  /** The newest first. */
  transcripts: Transcript[];
}

/** How many changes are handled together. */
export type Trigger = "change" | "turn";

export interface TrustRequest {
  /** A directory of the project. */
  cwd: string;
  /** The digest of the content that was shown. */
  digest: string;
}

/** A turn and the line that ends it. */
export interface Turn {
  cost?: number | null;
  end?: TurnEnd | null;
  /** The files it changed, in the order of their first change. */
  files: EditedFile[];
  /** The first entry of the journal that belongs to it. */
  first: number;
  /** The line that ends it; empty while it runs. */
  html: string;
  /** From 1 on; 0 holds what came before the first turn. */
  number: number;
  /** Why the agent started it by itself, in the agent's words. */
  origin?: string | null;
  /** The items of the prompts it answers. */
  prompts: string[];
  /** The revision of its last change. */
  rev: number;
  /** A rewind removed it from the agent's memory. */
  rewound: boolean;
  started?: number | null;
  tokens: TokenCounts;
}

export interface TurnEnd {
  at?: number | null;
  duration_ms?: number | null;
  ending?: TurnEnding | null;
  /** Why the CLI stopped, in its own words. */
  reason?: string | null;
}

export type TurnEnding = "completed" | "failed" | "interrupted" | "cut";

/** The files a turn changed. */
export interface TurnFilesResponse {
  files: FileDiff[];
}

export interface UpdateFrame {
  /** The oldest revision it can be applied to. */
  from: number;
  patches: Patch[];
  /** The revision after it is applied. */
  to: number;
}

/** A file that was received. */
export interface UploadedFile {
  /** Relative to the session's directory. Its name has a number if there was such a file already. */
  path: string;
}

/** What a session has used so far. */
export interface Usage {
  /** Tokens in the context of the main agent. */
  context?: number | null;
  /** Dollars, if the agent reports them. */
  cost?: number | null;
  plan?: PlanLimit | null;
  tokens: TokenCounts;
  /** Tokens that fit into the context. */
  window?: number | null;
  /** The windows of the plan, as last reported. */
  windows?: PlanLimit[];
}

/** The usage of a model in a session on a day. */
export interface UsageRow {
  /** Dollars, as far as the agent reports them. */
  cost?: number | null;
  /** The day in UTC, as `2026-01-31`. */
  day: string;
  model?: string | null;
  session: string;
  title?: string | null;
  tokens: TokenCounts;
  turns: number;
}

export interface UsageTableResponse {
  /** How many dollars all sessions may cost on a day before queued prompts wait. */
  budget_per_day?: number | null;
  /** One row for each day, session and model, oldest first. */
  days: UsageRow[];
  /** What all sessions have cost today (in UTC), in dollars, including deleted ones. */
  today: number;
  /** The windows of the plan, as an agent reported each of them last. */
  windows: PlanWindow[];
}

/** What is done with files that the agent changes. */
export interface WatchConfig {
  commit?: CommitConfig | null;
  /** When they are copied. */
  every?: Trigger;
  /** Not these files. */
  exclude?: string[];
  /** Programs to run on changes; needs the role `admin`. */
  hooks?: HooksConfig;
  /** Only these files: names or paths, with `*` as a wildcard. */
  include?: string[];
  /** Whether to scan for files that shell commands changed. */
  scan?: boolean;
  /** Where changed files are copied. */
  targets?: WatchTarget[];
}

export type WatchLogKind = "commit" | "sync" | "hook" | "error";

/** Something that was done, or that failed. */
export interface WatchLogLine {
  /** In milliseconds since 1970. */
  at: number;
  /** The id of a commit. */
  commit?: string | null;
  /** Whether it is an error. */
  error: boolean;
  kind: WatchLogKind;
  /** The file it is about. */
  path?: string | null;
  text: string;
}

/** What is done with files that a session's agent changes, and how far that has come. */
export interface WatchResponse {
  config?: WatchConfig | null;
  /** Whether it is the default of the server. A session without a configuration of its own inherits, even if there is no default. */
  inherited: boolean;
  /** The last entry of the session. */
  last: number;
  /** The last log lines, oldest first. */
  log: WatchLogLine[];
  /** The last entry that was processed. */
  processed: number;
}

/** A watch configuration, or `"inherit"` for the default of the server. */
export type WatchSetting = WatchSettingName | WatchConfig;

export type WatchSettingName = "inherit";

/** Where changed files are copied. */
export type WatchTarget = { kind: "directory"; path: string } | { kind: "address"; token_variable?: string | null; url: string } | { kind: "command"; line: string };

/** The whole of an item. */
export interface WholeItem {
  /** The item with its whole element. */
  item: Item;
  /** What the element is made from: Markdown, input, output. */
  source: Record<string, unknown>;
}

/** A machine that drives sessions. */
export interface Worker {
  /** Since when it is not connected, in milliseconds since 1970; null if it is connected, or was away before this server started. */
  away_since?: number | null;
  connected: boolean;
  name: string;
  /** The name of a group of workers that are alike. */
  pool?: string | null;
  /** The directories below which its sessions may work. */
  roots: string[];
  /** How many sessions it has. */
  sessions: number;
  /** How many agents may work at the same time. */
  slots: number;
  /** How many agents work. */
  used: number;
  /** Its version of Towpath; null if it was away since this server started. */
  version?: string | null;
}

/** The machines that drive the sessions; none if this server does it itself. */
export interface WorkersResponse {
  /** Since when this server has no connection to the fleet, so that what it shows may be old, in milliseconds since 1970; null while it has one. */
  connection_lost_since?: number | null;
  workers: Worker[];
}
