// Types of client.js, written by `python -m deploy.client_types`; see docs/apps.md.

/** A piece of the answer's text, to be appended; the last one has `final` and may be empty. */
export interface AnswerEvent {
  type: "answer";
  /** Its number: they count upwards, with gaps */
  turn: number;
  /** What follows on what came before: a delta, not the whole */
  text: string;
  /** Nothing more of it follows */
  final: boolean;
}

/** A broadcast of the session stands otherwise than before; GET …/broadcasts has all of it. */
export interface BroadcastEvent {
  type: "broadcast";
  /** Of the broadcast, as in its path */
  id: string;
  /** waiting: it is tried again */
  state: "connecting" | "live" | "waiting" | "stopped" | "failed";
  /** Why it is not live */
  message: string;
}

/**
 * Something went wrong; the session lives on unless `code` is `session_closed`.
 *
 * To one client alone, where what it sent is refused: `invalid_input`, `not_found`, `forbidden`,
 * `out_of_order`, `microphone_taken`, `too_many_waiting`, and `at_capacity`, `stage_lost` or
 * `unavailable` where the session has to take its slots again. To all: `stage_away` (a replica is
 * away, and waited for), `at_capacity`, `stage_lost`, `timeout`, `recording_failed`; and where a
 * stage fails at a turn, what gRPC calls that in small letters: `internal`, `unavailable`,
 * `not_found`, `invalid_argument`, `resource_exhausted`, `deadline_exceeded` …
 */
export interface ErrorEvent {
  type: "error";
  /** For programs; others may come */
  code: string;
  /** For people, in English */
  message: string;
}

/** Be silent now. */
export interface InterruptCommand {
  type: "interrupt";
}

/**
 * Where the time of a turn went; sent when its sound starts and again when it is over.
 *
 * All times in milliseconds from the end of the visitor's speech or the text's arrival; what
 * was prepared while the visitor might still have gone on begins before zero.
 */
export interface LatencyEvent {
  type: "latency";
  /** The turn that was timed */
  turn: number;
  /** In the order of their work */
  stages: StageTime[];
  /** What began it; else than speech and text: nobody asked */
  origin: "speech" | "text" | "welcome" | "say" | "brought";
  /** In the order of the stages */
  spans: Span[];
  /** To the first lip-synced picture that leaves */
  first_frame_ms?: number;
  /** voice_to_voice without the wait for the end of speech and without the models' work that nothing else could be done beside */
  overhead_ms?: number;
  /** Gaps in the voice so far */
  underruns: number;
  /** How far spans of stages on other machines may be misplaced; 0: all on one */
  clock_error_ms: number;
  /** End of the visitor's speech or text to the first sample that leaves */
  voice_to_voice_ms?: number;
}

/** The one tool that each answer has to call. */
export interface NamedTool {
  name: string;
}

/** Keeps a session without media alive; answered by `pong`. */
export interface PingCommand {
  type: "ping";
}

/** How a place in line stands: on the socket of the place alone, see PlaceInfo. */
export interface PlaceEvent {
  type: "place";
  /** Of the session that will be */
  id: string;
  /** admitted: the session is there */
  state: "waiting" | "admitted" | "refused" | "left";
  /** 1: next; 0: it waits no more */
  position: number;
  /** Absent: that cannot be told */
  expected_wait_s?: number;
  /** Why it was refused */
  message: string;
  /** Its gateway ends; ask for another place */
  again: boolean;
}

/** Answer to a ping. */
export interface PongEvent {
  type: "pong";
}

/** What one of both has said. */
export interface Said {
  side: "visitor" | "avatar";
  text: string;
}

/** Have this said as it stands, as `POST …/say` does; `say` events tell what becomes of it. */
export interface SayCommand {
  type: "say";
  /** Up to 8000 characters */
  text: string;
  /** Of this text alone; empty: the session's */
  style?: "" | "neutral" | "happy" | "sad" | "angry" | "surprised" | "afraid" | "disgusted" | "contemptuous" | "calm" | "excited" | "whisper";
  /** Of this text alone, where its script does not tell (BCP 47) */
  language?: string;
  /** Now, in place of what is being said and of all that waits */
  interrupt?: boolean;
}

/** What becomes of a text that is to be said as it stands: it waits, then its turn opens. */
export interface SayEvent {
  type: "say";
  /** As the answer to `POST …/say` names it */
  say: number;
  /** dropped: it will not be said */
  event: "waiting" | "opened" | "dropped";
  /** The whole text, as it was given */
  text: string;
  /** The turn in which it is said; with opened */
  turn?: number;
  /** Why it will not be said; with dropped */
  reason?: string;
}

/** What is to be said as it stands. */
export interface SayRequest {
  text: string;
  /** Of this text alone; empty: the session's */
  style?: "" | "neutral" | "happy" | "sad" | "angry" | "surprised" | "afraid" | "disgusted" | "contemptuous" | "calm" | "excited" | "whisper";
  /** Of this text alone, where its script does not tell; empty: the session's */
  language?: string;
  /** Say it now, in place of what is being said and of all that waits */
  interrupt?: boolean;
}

/** What is left out stays. Takes effect from the next turn on. */
export interface SessionChange {
  /** BCP 47, for example en or zh */
  language?: string | null;
  /** From /v1/voices; empty: the best one */
  voice?: string | null;
  /** From /v1/avatars; empty: the default one */
  avatar?: string | null;
  /** Of the voice: 0.5 to 2, 1 is normal */
  speed?: number | null;
  /** How answers are said, such as happy */
  style?: "" | "neutral" | "happy" | "sad" | "angry" | "surprised" | "afraid" | "disgusted" | "contemptuous" | "calm" | "excited" | "whisper" | null;
  /** Who draws the face: server or client */
  drawn_by?: "server" | "client" | null;
  /** For the app that made the session, or an operator */
  tools?: ToolOption[] | null;
  tool_choice?: "auto" | "none" | "required" | NamedTool | null;
}

/** The session as it is now: first after connecting, and after each change. */
export interface SessionEvent {
  type: "session";
  /** Of the session, as in its paths */
  id: string;
  /** BCP 47, for example en or zh */
  language: string;
  /** Empty: the best voice of the language */
  voice: string;
  /** Empty: the default avatar */
  avatar: string;
  /** Of the voice; 1 is normal */
  speed: number;
  /** How answers are said, for example happy */
  style: string;
  /** client: there are poses on `…/face`, and no pictures */
  drawn_by: "server" | "client";
  /** client: it brings the speech, and there is a face alone */
  spoken_by: "server" | "client";
  /** Of sound and pictures, as IPTC calls what is synthetic */
  digital_source_type: "trainedAlgorithmicMedia";
}

/** A session as it is now. */
export interface SessionInfo {
  id: string;
  /** UTC; null where a gateway of an earlier version has it */
  created_at: string | null;
  language: string;
  voice: string;
  avatar: string;
  /** What the language model is told it is; empty to who has the session's token alone, and to all where the llm service's own holds */
  persona: string;
  speed: number;
  style: string;
  drawn_by: "server" | "client";
  spoken_by: "server" | "client";
  state: "idle" | "listening" | "thinking" | "speaking";
  /** What is still to be said first; empty: nothing */
  welcome: string;
  viewers: number;
  /** Replica that serves each stage; null while it is being replaced */
  stages: Record<string, string | null>;
  /** Of its sound and pictures, as IPTC calls what is synthetic */
  digital_source_type: "trainedAlgorithmicMedia";
}

/** What the session is to be; all of it may be left out. */
export interface SessionRequest {
  /** BCP 47 */
  language?: string;
  /** From /v1/voices; empty: the best one */
  voice?: string;
  /** From /v1/avatars; empty: the default one */
  avatar?: string;
  /** What the language model is told it is; absent: the gateway's own */
  persona?: string | null;
  /** Of the voice; 1 is normal */
  speed?: number;
  /** How answers are said, by voice and face: neutral, happy, sad, angry, surprised, afraid, disgusted, contemptuous, calm, excited, whisper. What the voice cannot do of it is told in a warning event */
  style?: "" | "neutral" | "happy" | "sad" | "angry" | "surprised" | "afraid" | "disgusted" | "contemptuous" | "calm" | "excited" | "whisper";
  /** Said once somebody watches: true, the phrase configured for the language and persona, else a usual one; a text, that one; false, nothing */
  welcome?: boolean | string;
  /** What was said before, oldest first, in a session that is no more: answers go on from there */
  history?: Said[];
  /** client: no pictures are sent, but what a client draws the face from, on the WebSocket `…/face`. Holds for connections that do not say it themselves */
  drawn_by?: "server" | "client";
  /** What answers may have the session's clients do: they are told by the event `answer.tool_call` and answer with `tool_result`; see docs/tools.md */
  tools?: ToolOption[];
  tool_choice?: "auto" | "none" | "required" | NamedTool;
  /** client: nothing is heard, thought or spoken here; the face says the speech that the client brings, on the WebSocket `…/speech` or over WebRTC */
  spoken_by?: "server" | "client";
  /** Where there is no room: wait for it, with an answer 202, instead of 429 */
  queue?: boolean;
}

/**
 * A piece of a block of code, or of a table: the answer shows it and does not say it.
 *
 * To be appended to those of its block before.
 */
export interface ShownEvent {
  type: "answer.shown";
  /** The turn whose answer it belongs to */
  turn: number;
  /** Which of the answer's blocks, from 1 */
  block: number;
  /** Of the code, as the model calls it; of a table `markdown`; empty: not known */
  language: string;
  /** What follows on what came of the block before */
  text: string;
  /** Where the block stands in the answer's text, in code points */
  chars: number;
}

/**
 * The answer's model was given these parts of the operator's texts, beside the question.
 *
 * Not sent where none fits.
 */
export interface SourcesEvent {
  type: "answer.sources";
  /** The turn whose answer they are for */
  turn: number;
  /** The best first */
  sources: TextSource[];
}

/**
 * What a stage did with its first or last chunk of a turn, and when.
 *
 * transfer: the chunk travels to the stage; wait: for what is not made yet, or for the
 * visitor; queue: all is there, the engine is busy; compute: the engine works.
 */
export interface Span {
  /** Whose time it is */
  stage: "asr" | "llm" | "tools" | "tts" | "face" | "encoder" | "playout";
  /** What the stage did */
  kind: "transfer" | "wait" | "queue" | "compute";
  /** Of the turn, with which it did that */
  chunk: "first" | "last";
  /** As all times of the event */
  start_ms: number;
  /** As all times of the event */
  end_ms: number;
}

/** One stage's share of a turn, relative to the end of the visitor's speech or text. */
export interface StageTime {
  /** asr, tools, llm, tts, face or playout */
  name: string;
  /** When its work began */
  start_ms: number;
  /** When its first chunk was there */
  end_ms: number;
}

/** What the face is doing. */
export interface StateEvent {
  type: "state";
  /** listening: the visitor speaks; thinking: an answer is on its way */
  state: "idle" | "listening" | "thinking" | "speaking";
}

/** The visitor typed this; it interrupts what is being said. */
export interface TextCommand {
  type: "text";
  /** Up to 8000 characters */
  text: string;
  /** Of this answer alone; empty: the session's */
  style?: "" | "neutral" | "happy" | "sad" | "angry" | "surprised" | "afraid" | "disgusted" | "contemptuous" | "calm" | "excited" | "whisper";
}

/** What the visitor types. */
export interface TextRequest {
  text: string;
  /** Of this answer alone; empty: the session's */
  style?: "" | "neutral" | "happy" | "sad" | "angry" | "surprised" | "afraid" | "disgusted" | "contemptuous" | "calm" | "excited" | "whisper";
}

/** A part of a text of the operator's. */
export interface TextSource {
  /** Its name within the folder */
  file: string;
  /** Under which the part stands; empty: none */
  heading?: string;
}

/**
 * The answer wants one of the session's tools: do it, and send `tool_result`.
 *
 * The answer goes on once all of its calls have a result. One that comes too late is told as an
 * error, `not_found`, and changes nothing: the visitor has interrupted, or the time was over.
 */
export interface ToolCallEvent {
  type: "answer.tool_call";
  /** The turn whose answer calls it */
  turn: number;
  /** What `tool_result` is to name */
  call_id: string;
  /** Of the tool, as the session's option `tools` has it */
  name: string;
  /** JSON of an object */
  arguments: string;
}

/** A tool of the session's clients, which answers may call. */
export interface ToolOption {
  name: string;
  description?: string;
  /** JSON Schema of its arguments, an object; absent: it takes none */
  parameters?: Record<string, unknown> | null;
}

/** What a call of `answer.tool_call` came to, as the language model is to read it. */
export interface ToolResultCommand {
  type: "tool_result";
  /** As `answer.tool_call` named the call */
  call_id: string;
  /** Text, mostly JSON; what is too long is cut */
  output: string;
}

/**
 * What the visitor says or typed; replaces the earlier text of the same utterance.
 *
 * A text that was final is replaced, too, where the visitor went on before a word of the answer
 * was heard: after `turn` replaced come both parts as one, under the utterance of the first.
 */
export interface TranscriptEvent {
  type: "transcript";
  /** Of what was spoken, counting upwards; 0: typed */
  utterance: number;
  /** All of it so far; empty and final: it was no speech, or its end is lost */
  text: string;
  /** Nothing of it changes any more */
  final: boolean;
  /** The turn that answers it; set where final */
  turn?: number;
}

/**
 * A turn's life: opened, speaking, then one of finished, interrupted, failed, replaced.
 *
 * replaced: the visitor goes on with the question, and no word of this answer was heard. What was
 * shown of the answer is to be forgotten; a later turn answers all of the question, whose text
 * replaces that of this turn's utterance. Or its gateway has died: a later turn has what there is
 * of the answer and goes on with it, under the question as it stands.
 *
 * interrupted: where what was taken for words turns out to be a noise, a later turn answers the
 * same utterance anew.
 */
export interface TurnEvent {
  type: "turn";
  /** Its number: they count upwards, with gaps */
  turn: number;
  /** speaking: its first sample leaves; finished: its last one has left */
  event: "opened" | "speaking" | "finished" | "interrupted" | "failed" | "replaced";
  /** What interrupted it (text, speech, interrupt, say …), or why it failed */
  reason?: string;
  /** What was audible of it, where interrupted */
  heard?: string;
  /** How much of its voice was heard, once it is over */
  played_ms?: number;
  /** With speaking: media time of its first sample, as the mp4 and the poses count it. Word times count from there; where the answer stands still they are later by as much */
  media_ms?: number;
}

/** Which turn it became. */
export interface TurnNumber {
  turn: number;
}

/**
 * What the visitor has typed so far, and not sent yet: the language model reads it now.
 *
 * It shows nothing, and nothing is kept of it: the answer to `text` comes sooner. Where it ends as
 * a sentence does, an answer is prepared; it is heard if `text` is the same. A few times a second
 * are enough, and at once behind such an end.
 */
export interface TypingCommand {
  type: "typing";
  /** All of it; empty: nothing any more */
  text: string;
}

/** Change the session from the next turn on; what is left out stays. */
export interface UpdateCommand {
  /** BCP 47, for example en or zh */
  language?: string | null;
  /** From /v1/voices; empty: the best one */
  voice?: string | null;
  /** From /v1/avatars; empty: the default one */
  avatar?: string | null;
  /** Of the voice: 0.5 to 2, 1 is normal */
  speed?: number | null;
  /** How answers are said, such as happy */
  style?: "" | "neutral" | "happy" | "sad" | "angry" | "surprised" | "afraid" | "disgusted" | "contemptuous" | "calm" | "excited" | "whisper" | null;
  /** Who draws the face: server or client */
  drawn_by?: "server" | "client" | null;
  type: "update";
}

/** Something that was asked for cannot be done; the turn, or the session, goes on without it. */
export interface WarningEvent {
  type: "warning";
  /** The turn that it is about, or the newest one */
  turn: number;
  /** unsupported: the voice cannot do all of a style; avatar_deleted: the face that was worn is there no more; empty_answer: the language model has said nothing */
  code: string;
  /** For people, in English */
  message: string;
}

/**
 * A word of an answer, or several where the voice does not tell them apart, and its times.
 *
 * Times count from the first sample of the answer's voice. A word begins where the one before it
 * ends: a pause between the two belongs to the later one.
 */
export interface WordTime {
  /** The word as it is written, with the marks that touch it */
  text: string;
  /** Where it ends in the answer's text, in Unicode code points */
  chars: number;
  /** Where it begins in the voice */
  start_ms: number;
  /** Where it ends in the voice */
  end_ms: number;
}

/** Words of the answer whose times are known: they come with the voice, before it is heard. */
export interface WordsEvent {
  type: "words";
  /** The turn whose answer they are of */
  turn: number;
  /** To be appended to those of before */
  words: WordTime[];
}

/** What the gateway sends. */
export type ServerEvent =
  | SessionEvent
  | StateEvent
  | TranscriptEvent
  | AnswerEvent
  | ShownEvent
  | SourcesEvent
  | ToolCallEvent
  | WordsEvent
  | SayEvent
  | TurnEvent
  | LatencyEvent
  | ErrorEvent
  | WarningEvent
  | BroadcastEvent
  | PongEvent
  | PlaceEvent;

/** What it takes on the events socket. */
export type Command =
  | TextCommand
  | TypingCommand
  | SayCommand
  | InterruptCommand
  | ToolResultCommand
  | UpdateCommand
  | PingCommand;

/** What the gateway refused, and why: `code` for programs; status 0: it was not reached. */
export class GatewayError extends Error {
  constructor(status: number, code: string, message: string);
  readonly status: number;
  readonly code: string;
}

/** What the connection itself tells. */
export interface ConnectionEvents {
  /** One of the session's sockets, or face and voice (`webrtc`), is lost; it is made anew. */
  lost: { type: "lost"; socket: string };
  back: { type: "back"; socket: string };
  /** The session is over, or was not found again. */
  ended: { type: "ended"; socket?: string };
}

/** The detail of each CustomEvent, by its type; `event` is every one of them. */
export type SessionEvents = { [E in ServerEvent as E["type"]]: E } & ConnectionEvents & {
  event: ServerEvent | ConnectionEvents[keyof ConnectionEvents];
};

/** One picture's worth of the face, for who draws it. */
export interface Pose {
  mediaMs: number;
  /** The 52 of ARKit in their alphabetical order, 0 to 1. */
  weights: Float32Array;
  /** Yaw, pitch, roll, right, down, breath. */
  place: number[];
}

/** One conversation; an EventTarget of these events alone, so that a misspelt one is an error. */
export class Session {
  /** A session that your own server has made, with what it was told. url: the gateway's. */
  constructor(url: string, made: { id: string; token: string; token_expires_in_s?: number });
  /** A session of these options. key: an app's, where one is needed. */
  static make(url: string, options?: Omit<SessionRequest, "queue">, key?: string): Promise<Session>;
  id: string;
  /** Type `text`, as the visitor; the turn that answers it. */
  ask(text: string, manner?: Omit<TextRequest, "text">): Promise<number>;
  /** Have the face say `text` as it stands; "say" events name it by this number. */
  say(text: string, manner?: Omit<SayRequest, "text">): Promise<number>;
  /** What the visitor has typed so far and not sent: the answer to it will come sooner. */
  typing(text: string): void;
  interrupt(): Promise<TurnNumber>;
  /** What an `answer.tool_call` came to; where the connection is lost it goes over the next one. */
  toolResult(callId: string, output: string): void;
  /** Change language, voice, avatar, speed or style from the next turn on. */
  update(options: SessionChange): Promise<SessionInfo>;
  /** All else that the API can do with a session, by its token as it is now: ("GET", "/turns"). */
  call(method: string, path: string, body?: unknown): Promise<unknown>;
  /** Face and voice over WebRTC. audio: the voice alone, where there is no video. */
  connect(where?: {
    video?: HTMLMediaElement | null;
    audio?: HTMLMediaElement | null;
    microphone?: boolean;
  }): Promise<MediaStream>;
  /** Whether the microphone, which stays open, gives silence: for push to talk. */
  muted: boolean;
  /** See and hear no more; the session goes on. */
  disconnect(): Promise<void>;
  /** The face for who draws it, 25 times a second. What it returns ends it. */
  blendshapes(draw: (pose: Pose) => void): () => void;
  /** The session ends, for everybody. */
  end(): Promise<void>;
  /** Follow it no more; it ends by itself when nobody is with it. */
  close(): void;
  addEventListener<K extends keyof SessionEvents>(
    type: K,
    listener: (event: CustomEvent<SessionEvents[K]>) => void,
    options?: boolean | AddEventListenerOptions,
  ): void;
  removeEventListener<K extends keyof SessionEvents>(
    type: K,
    listener: (event: CustomEvent<SessionEvents[K]>) => void,
    options?: boolean | EventListenerOptions,
  ): void;
}
