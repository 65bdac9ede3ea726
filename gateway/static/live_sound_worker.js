/** Runs in a worker: takes the sound's packets before the browser's own buffer, decodes them. */

const RATE_HZ = 48_000;
/** More at a time is no stall but a decoder that stands still. */
const QUEUE_LIMIT_PACKETS = 200;

/** Where packets get lost, each is sent again behind two others (visavis.serving.aiortc_private). */
const WAIT_PACKETS = 2;

const ahead = (number, of) => ((number - of) << 16) >> 16;

/** Puts packets right that came in the wrong order, where one does not have to wait for longer. */
class InOrder {
  #expected = null;
  #early = [];

  /** Packets to be decoded now that this one has come. */
  take(packet) {
    this.#expected ??= packet.number;
    const taken = this.#early.some(({ number }) => number === packet.number);
    if (taken || ahead(packet.number, this.#expected) < 0) return []; // its place has gone by
    this.#early.push(packet);
    this.#early.sort((a, b) => ahead(a.number, b.number));
    const ready = [];
    while (this.#early[0]?.number === this.#expected || this.#early.length > WAIT_PACKETS) {
      const next = this.#early.shift();
      ready.push(next);
      this.#expected = (next.number + 1) & 0xffff;
    }
    return ready;
  }
}

/** Hands on sound as {time, pcm}: RTP time that does not wrap around, [N] float32 mono. */
class Decoding {
  #packets;
  #inOrder = new InOrder();
  #time = null;
  /** Of what is being decoded, the oldest first: the decoder counts on over what is lost. */
  #times = [];
  #decoder;

  constructor(packets) {
    this.#packets = packets;
    this.#decoder = new AudioDecoder({
      output: (sound) => this.#handOn(sound),
      error: (error) => reportError(error),
    });
    this.#decoder.configure({ codec: "opus", sampleRate: RATE_HZ, numberOfChannels: 1 });
  }

  take(frame) {
    const { sequenceNumber: number, rtpTimestamp } = frame.getMetadata();
    for (const packet of this.#inOrder.take({ number, rtpTimestamp, data: frame.data })) this.#decode(packet);
  }

  #decode({ rtpTimestamp, data }) {
    this.#time = this.#time === null ? rtpTimestamp : this.#time + ((rtpTimestamp - this.#time) | 0);
    if (this.#decoder.decodeQueueSize > QUEUE_LIMIT_PACKETS) return;
    this.#times.push(this.#time);
    const timestamp = Math.round((1e6 * this.#time) / RATE_HZ);
    this.#decoder.decode(new EncodedAudioChunk({ type: "key", timestamp, data }));
  }

  #handOn(sound) {
    const pcm = new Float32Array(sound.numberOfFrames);
    sound.copyTo(pcm, { planeIndex: 0, format: "f32-planar" });
    sound.close();
    this.#packets.postMessage({ time: this.#times.shift(), pcm }, [pcm.buffer]);
  }
}

addEventListener("rtctransform", async ({ transformer }) => {
  const decoding = new Decoding(transformer.options.packets);
  const reader = transformer.readable.getReader();
  for (let next = await reader.read(); !next.done; next = await reader.read()) decoding.take(next.value);
});

postMessage("listens");
