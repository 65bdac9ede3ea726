/** Runs in a worker: takes the sound's packets before the browser's own buffer, decodes them. */

const RATE_HZ = 48_000;
/** More at a time is no stall but a decoder that stands still. */
const QUEUE_LIMIT_PACKETS = 200;

/** Puts packets right that came in the wrong order, where that costs the time of one at most. */
class InOrder {
  #expected = null;
  #early = null;

  /** Packets to be decoded now that this one has come. */
  take(packet) {
    const ahead = this.#expected === null ? 0 : (packet.number - this.#expected) << 16 >> 16;
    if (ahead < 0) return []; // its place has gone by
    if (ahead > 0 && !this.#early) {
      this.#early = packet;
      return [];
    }
    const ready = [packet, this.#early].filter(Boolean).sort((a, b) => (a.number - b.number) << 16 >> 16);
    this.#early = null;
    this.#expected = (ready.at(-1).number + 1) & 0xffff;
    return ready;
  }
}

/** Hands on sound as {time, pcm}: RTP time that does not wrap around, [N] float32 mono. */
class Decoding {
  #packets;
  #inOrder = new InOrder();
  #time = null;
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
    const timestamp = Math.round((1e6 * this.#time) / RATE_HZ);
    this.#decoder.decode(new EncodedAudioChunk({ type: "key", timestamp, data }));
  }

  #handOn(sound) {
    const pcm = new Float32Array(sound.numberOfFrames);
    sound.copyTo(pcm, { planeIndex: 0, format: "f32-planar" });
    const time = Math.round((sound.timestamp * RATE_HZ) / 1e6);
    sound.close();
    this.#packets.postMessage({ time, pcm }, [pcm.buffer]);
  }
}

addEventListener("rtctransform", async ({ transformer }) => {
  const decoding = new Decoding(transformer.options.packets);
  const reader = transformer.readable.getReader();
  for (let next = await reader.read(); !next.done; next = await reader.read()) decoding.take(next.value);
});

postMessage("listens");
