/**
 * The sound for an agent that needs the user.
 *
 * @module
 */

/** Plays two soft notes. */
export function playSound() {
  try {
    const audio = new AudioContext();
    [660, 880].forEach((pitch, n) => {
      const start = audio.currentTime + n * 0.14;
      const volume = audio.createGain();
      const tone = audio.createOscillator();
      tone.frequency.value = pitch;
      volume.gain.setValueAtTime(0.0001, start);
      volume.gain.exponentialRampToValueAtTime(0.12, start + 0.02);
      volume.gain.exponentialRampToValueAtTime(0.0001, start + 0.35);
      tone.connect(volume).connect(audio.destination);
      tone.start(start);
      tone.stop(start + 0.4);
    });
  } catch {
    return;
  }
}
