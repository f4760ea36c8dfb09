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

/** An answer to a request. */
export interface AnswerRequest {
  /** Answers by the text of the question. */
  answers?: Record<string, string> | null;
  decision: Decision;
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

/** What a client may send. */
export type ClientFrame = { frame: "snapshot" };

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

/** A new session. */
export interface CreateSessionRequest {
  /** Tools the agent may use without asking. */
  allowed_tools?: string[];
  /** The agent's working directory: an absolute path below one of the roots. */
  cwd: string;
  effort?: string | null;
  /** Additional directories it may work in, below one of the roots. */
  extra_directories?: string[];
  /** Made by the sender. If a session with this id exists, it is returned. */
  id?: string | null;
  /** The permission mode, as the CLI spells it: `default`, `acceptEdits`, `plan`, …. */
  mode?: string | null;
  /** The CLI's default if there is none. */
  model?: string | null;
  prompt?: FirstPrompt | null;
  /** The CLI's id of a conversation to resume. */
  resume?: string | null;
  title?: string | null;
  watch?: WatchConfig | null;
}

export interface CreateSessionResponse {
  id: string;
}

export interface CreateTokenRequest {
  /** Letters, digits, `-`, `_` and `.`. */
  name: string;
  role: Role;
}

/** A new token with its secret, which is not shown again. */
export interface CreateTokenResponse {
  name: string;
  token: string;
}

export type Decision = "allow" | "deny";

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

/** Files in a working directory. */
export interface FileSearchResponse {
  /** Relative to the working directory, the best match first. */
  paths: string[];
}

/** A first prompt: its text, or a whole prompt. */
export type FirstPrompt = string | PromptRequest;

export interface ForkRequest {
  /** The title of the original session if there is none. */
  title?: string | null;
}

/** What a client that follows a session is sent. */
export type Frame = Snapshot & { frame: "snapshot" } | UpdateFrame & { frame: "update" } | Heartbeat & { frame: "heartbeat" } | { frame: "deleted" };

/** A permission for more than one call. */
export interface Grant {
  by: Actor;
  created: number;
  /** The directory it applies in, for every session there. */
  directory?: string | null;
  id: string;
  /** The calls it covers; all calls of the tool if there is none. */
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

export interface InterruptRequest {
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

/** Entries of the journal. */
export interface LinePageResponse {
  lines: Line[];
  /** There are more entries after these. */
  more: boolean;
}

/** The client that is signed in, and the server. */
export interface Me {
  /** Whether the agent is the built-in one. */
  demo: boolean;
  /** All permission modes, the most careful ones first. */
  modes: Mode[];
  /** The name of the token, or the user name from the proxy. */
  name: string;
  role: Role;
  /** Where sessions may work. */
  roots: string[];
  /** The version of the server. */
  version: string;
  /** `browser` or `api`. */
  via: string;
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

export interface MovePromptRequest {
  /** The prompt to move it in front of; without one it moves to the end. */
  before?: string | null;
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

/** How a request can be resolved. */
export type Outcome = "allowed" | "allowed_and_remembered" | "denied" | "expired" | "withdrawn";

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

export interface RenameRequest {
  title: string;
}

/** A request in a conversation, with all a card needs. */
export type Request = Consent & { action: string; at?: number | null; blocked_path?: string | null; description?: string | null; expires?: number | null; html: string; id: string; input: string; item?: string | null; kind: RequestKind; reason?: string | null; target: string; tool: string };

/** A request of an agent. */
export type RequestEntry = Consent & { expires?: number | null; id: string; input: string; kind: RequestKind; opened: number; resolution?: Resolution | null; session: string; suggestions?: string | null; tool: string };

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
  /** The calls it covers; all calls of the tool if there is none. */
  pattern?: string | null;
  /** The tool it covers, or `edits` for all tools that edit files. */
  tool: string;
}

/** The id of a rule. */
export type RuleId = "exact" | "directory" | "host" | "tool";

export interface SendPromptResponse {
  id: string;
  state: PromptState;
}

/** A session in the list. */
export interface Session {
  /** When it was last active. */
  active: number;
  /** The agent's own session ids, oldest first. */
  agent_ids: string[];
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
  /** Why it cannot be used right now: its shim does not answer, or its data is damaged. */
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
}

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

/** All sessions. */
export interface SessionsResponse {
  sessions: Session[];
}

/** Settings to change; missing ones stay as they are. */
export interface SettingsRequest {
  effort?: string | null;
  /** The permission mode, as the CLI spells it. */
  mode?: string | null;
  /** `null` selects the default model. */
  model?: string | null;
  watch?: WatchConfig | null;
}

export interface SignInRequest {
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

/** What a session is doing. */
export interface Status {
  phase: SessionPhase;
  /** When the phase started, in milliseconds since 1970. */
  since?: number | null;
  /** When the running turn started. */
  turn_since?: number | null;
}

/** Why there is no agent process. */
export type StopCause = { cause: "not_started"; message: string } | { cause: "not_ready" } | { cause: "exited"; code: number; stderr: string } | { cause: "killed"; signal: number } | { cause: "disobeyed" } | { cause: "parked" } | { cause: "closed" } | { cause: "lost" };

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

/** How many changes are handled together. */
export type Trigger = "change" | "turn";

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
  /** One row for each day, session and model, oldest first. */
  days: UsageRow[];
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

/** Something that was done, or that failed. */
export interface WatchLogLine {
  /** In milliseconds since 1970. */
  at: number;
  /** Whether it is an error. */
  error: boolean;
  text: string;
}

/** What is done with files that a session's agent changes, and how far that has come. */
export interface WatchResponse {
  config?: WatchConfig | null;
  /** The last entry of the session. */
  last: number;
  /** The last log lines, oldest first. */
  log: WatchLogLine[];
  /** The last entry that was processed. */
  processed: number;
}

/** Where changed files are copied. */
export type WatchTarget = { kind: "directory"; path: string } | { kind: "address"; token_variable?: string | null; url: string } | { kind: "command"; line: string };

/** The whole of an item. */
export interface WholeItem {
  /** The item with its whole element. */
  item: Item;
  /** What the element is made from: Markdown, input, output. */
  source: Record<string, unknown>;
}
